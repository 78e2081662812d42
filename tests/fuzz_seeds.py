"""Valid inputs for every parser, which `fuzz_targets.py` breaks. Created here or taken from the shipped tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

import gpuwise
from gpuwise.workload.store import files
from making_amd import rocpd, rocprof, rpd
from making_files import collective, dcgmi, dmon, flight, op_table, pickled, query, snapshot, wandb
from making_gguf import deepseek, gpt_oss, header, llama
from making_traces import SGEMM, Run, autograd_profile, chakra, execution_trace, nsys, training, with_graphs, xplane

ROOT = Path(__file__).parents[1]
TYPED = "name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,tdp=200W"
BODIES: tuple[dict[str, Any], ...] = (
    {"question": "gpus", "names": ["RTX 3090", TYPED]},
    {"question": "gpus", "arch": "ampere", "vendor": "nvidia"},
    {"question": "predict", "model": "mnist_cnn", "gpu": ["RTX 3090", TYPED], "batch": "64", "precision": "amp", "gpus": 2},
    {
        "question": "predict",
        "model": "mnist_cnn",
        "gpu": ["T4"],
        "power_limit": "60W",
        "measured": ["T4=4ms"],
        "pcie": "PCIe 3.0 x8",
    },
    {
        "question": "predict",
        "model": "gpt2",
        "gpu": ["A100"],
        "phase": "decode",
        "seq": 512,
        "cpu": "laptop",
        "stack": "torch-2.4",
    },
    {"question": "fit", "model": "mnist_cnn", "gpu": ["GTX 970"], "batch": "4096", "display": True, "remedies": False},
    {
        "question": "compare",
        "names": ["2x T4", "RTX 2070 Max-Q"],
        "model": ["mnist_cnn"],
        "price": ["T4=700"],
        "currency": "EUR=1.1",
    },
    {
        "question": "which",
        "model": ["mnist_cnn"],
        "budget": 800,
        "deadline": "3 days",
        "have": ["2x T4"],
        "tariff": "200=0.1,600=0.44",
    },
    {"question": "cost", "gpu": "RTX 3090", "gpus": 2, "price": "700", "bills": "200=20,600=190", "years": 3, "cloud": "vast"},
    {"question": "cost", "gpu": "RTX 3090", "cloud_price": 1.5, "job_hours": 12, "currency": "EUR=1.08", "region": "Germany"},
    {
        "question": "build",
        "gpu": ["4x RTX 3090"],
        "psu": "1600W gold atx3",
        "lanes": "X299",
        "board": "slots=7,x16=4",
        "ram": "64GB",
    },
    {
        "question": "build",
        "gpu": ["T4"],
        "outlet": "120V 15A",
        "room": "12",
        "riser": "PCIe 3.0 x1",
        "power_limit": "60",
        "cpu": "laptop",
    },
    {"question": "models", "search": "resnet"},
    {"question": "predict", "model": "llama-3-8b", "gpu": ["RTX 3090"], "users": 4, "weights": "q4_k_m", "prompt": 100},
    {"question": "matters", "topic": "pcie-lanes", "model": "mnist_cnn", "gpu": "RTX 3090", "batch": "64"},
    {"question": "sweep", "model": "mnist_cnn", "gpu": ["RTX 3090"], "batches": [1, 64, 4096]},
    {
        "question": "plan",
        "model": "mnist_cnn",
        "cluster": "2x2xRTX 3090",
        "network": "100Gbit",
        "link": "PCIe 3.0 x8, no p2p",
        "batch": 64,
    },
)


def rows_of(path: Path, rows: int = 4, keep: str = "") -> list[bytes]:
    """The first rows of a table, behind its header."""
    lines = path.read_bytes().splitlines()
    kept = [line for line in lines[1:] if keep.encode() in line]
    step = max(1, len(kept) // 40)
    return [b"\n".join([lines[0], *kept[place : place + rows]]) + b"\n" for place in range(0, len(kept), step)][:40]


OPERATORS = (
    b"gpu,op,b,m,n,k,h,in_ch,out_ch,kernel,size,stride,padding,latency_ms\n"
    b"V100,linear,1,512,512,512,,,,,,,,0.1\nT4,softmax,64,,,,128,,,,,,,0.01\nP100,conv2d,8,,,,,3,64,7,224,2,3,1.5\n",
    b"gpu,framework,version,dtype,kernel,m,n,k,latency_ms\nA100,trtllm,1,bf16,x,64,512,512,0.01\nH100,vllm,1,fp8,x,64,512,512,0.01\n",
    b"gpu,framework,version,phase,batch,q_len,kv_len,heads,kv_heads,head_dim,window,attn_dtype,kv_dtype,kernel,latency_ms\n"
    b"A100,trtllm,1,context,2,512,512,16,4,64,0,bf16,bf16,x,0.2\nH100,vllm,1,generation,2,1,512,16,4,64,128,bf16,fp8,x,0.02\n",
    b"gpu,kind,suite,precision,pass,time_ms,m,n,k,trans_a,trans_b,w,h,c,s,r,pad_w,pad_h,stride_w,stride_h,cell,hidden,timesteps,bytes,gpu_count\n"
    b"T4,gemm,infer,fp16 in mixed math,fwd,0.9,512,700,2048,N,T,,,,,,,,,,,,,,\n"
    b"V100,conv,train,fp32,bwd-data,0.9,,8,64,,,56,56,64,3,3,1,1,1,1,,,,,\nV100,rnn,train,fp32,fwd,2,,16,,,,,,,,,,,,,lstm,512,25,,\n",
    b"gpu,gpu_count,link,op,bytes,dtype,library,source,time_us,runs\n"
    b"A100 SXM,8,NVLink,all_reduce,1048576,fp16,nccl,aiconfigurator,90,1\n"
    b"H100 SXM,4,NVLink,all_gather,4096,fp16,nccl,vtrain,12,1\n",
)


def measurements(folder: Path) -> list[bytes]:
    shipped = ROOT / "src/gpuwise/evidence/data"
    found = list(OPERATORS)
    found += rows_of(shipped / "measurements.csv", keep=",resnet50,")
    found += rows_of(shipped / "measurements.csv")
    found += rows_of(shipped / "memory_measurements.csv")
    return found + rows_of(shipped / "parallel_measurements.csv", rows=1)


def parquet(folder: Path) -> list[bytes]:
    import pyarrow.csv
    import pyarrow.parquet

    path = folder / "seed.parquet"
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(pyarrow.BufferReader(OPERATORS[-1])), path)
    return [path.read_bytes()]


def workloads(folder: Path) -> list[bytes]:
    found = []
    for name, mode in (("mnist_cnn", "train"), ("word_lstm", "infer"), ("mnist_cnn", "infer")):
        found.append(files.encode(gpuwise.capture(name, mode=mode).workload))
    return found


def traces(folder: Path) -> list[bytes]:
    wide = training(steps=3, kernels=3, load_us=50.0, copy_us=20.0, sync=True, name=SGEMM).write(folder / "seed.json")
    old = training(Run(old=True), steps=3, kernels=3, load_us=50.0).write(folder / "old.json")
    packed = training(steps=3, kernels=3).write(folder / "seed.json.gz")
    return [path.read_bytes() for path in (wide, old, packed)]


def old_traces(folder: Path) -> list[bytes]:
    events = autograd_profile(steps=2, kernels=4)
    pairs = [{**one, "ph": kind, "ts": one["ts"] + (kind == "E")} for one in events if one["ph"] == "X" for kind in "BE"]
    return [
        json.dumps(events).encode(),
        json.dumps({"traceEvents": pairs}).encode(),
        "\ufeff".encode() + json.dumps(events).encode(),
    ]


def xplanes(folder: Path) -> list[bytes]:
    return [xplane(kernels=4), xplane(kernels=30, step=False), xplane(kernels=3, kernel_us=0, gap_us=0)]


def exports(folder: Path) -> list[bytes]:
    plain = nsys(folder / "seed.sqlite", kernels=4).read_bytes()
    return [plain, with_graphs(nsys(folder / "graphs.sqlite", kernels=4), graphs=30).read_bytes()]


def amd_traces(folder: Path) -> list[bytes]:
    return [rocprof(folder / "seed.json", kernels=30).read_bytes(), rocprof(folder / "few.json", kernels=2).read_bytes()]


def rpds(folder: Path) -> list[bytes]:
    return [rpd(folder / "seed.rpd", kernels=30).read_bytes()]


def rocpds(folder: Path) -> list[bytes]:
    return [rocpd(folder / "seed.db", kernels=30).read_bytes()]


def snapshots(folder: Path) -> list[bytes]:
    path = folder / "seed.pickle"
    made = [snapshot(oom=oom, history=history) for oom, history in ((True, True), (False, False))]
    return [pickled(path, one, protocol).read_bytes() for one in made for protocol in (2, 4)] + [json.dumps(made[0]).encode()]


def dumps(folder: Path) -> list[bytes]:
    path = folder / "seed.pickle"
    calls = [
        collective(1),
        collective(2, "all_gather", state="started"),
        collective(1, "send 0->1", state="started", is_p2p=True),
    ]
    return [*(pickled(path, flight(calls), protocol).read_bytes() for protocol in (2, 4)), json.dumps(flight(calls)).encode()]


def readings(folder: Path) -> list[bytes]:
    return [text.encode() for text in (dmon(5, thermal=1), dcgmi(5, violation_us=9), wandb(5), query(5))]


def op_tables(folder: Path) -> list[bytes]:
    rows = [("aten::mm", 30.0, 60.0, 90), ("enumerate(DataLoader)#x", 90.0, 0.0, 9), ("Memcpy HtoD (Pageable)", 0.0, 9.0, 3)]
    return [op_table(rows, cuda=cuda).encode() for cuda in (True, False)]


def execution_traces(folder: Path) -> list[bytes]:
    found = [json.dumps(execution_trace(30, timed=timed)).encode() for timed in (True, False)]
    return [*found, chakra(30), chakra(3, timed=False)]


def profiles(folder: Path) -> list[bytes]:
    def row(kind: str, *sizes: float, work: float = 1e6, seconds: float = 1e-3) -> dict[str, Any]:
        return {"kind": kind, "sizes": sizes, "work": work, "seconds": seconds, "spread_fraction": 0.1, "runs": 5}

    halves = [
        f"{name}.{half}"
        for name in ("batch_norm", "row_norm", "softmax", "pool", "embedding")
        for half in ("forward", "backward")
    ]
    rows = [
        row(kind, work=1e3, seconds=1e-5) for kind in (*halves, "columns", "reduction", "copy", "random", "curve", "elementwise")
    ]
    rows += [row(f"{kind}.{half}", 8, 16, 16, 3, 100) for kind in ("conv", "strided") for half in ("forward", "data", "weight")]
    rows += [
        row("matmul.fp32", 1, 16, 16, 16),
        row("matmul.fp32", 1, 512, 512, 512, work=3e8),
        row("chain.forward", 20, 20),
        row("chain.step", 20, 20, seconds=3e-3),
    ]
    rows += [
        row(f"optimizer.{name}", tensors, elements, work=elements)
        for name in ("adamw", "momentum", "sgd", "adam")
        for tensors, elements in ((100, 1e4), (2, 1e6))
    ]
    return [
        msgspec.json.encode(
            {"version": 1, "device": "cpu", "name": "a CPU", "day": "2026-01-01", "torch": "2.13", "threads": 2, "rows": rows}
        )
    ]


def marks(folder: Path) -> list[bytes]:
    from gpuwise.live.hook.gpuwise_steps import RECORD

    kinds = (b"L", b"B", b"E", b"S")
    return [b"".join(RECORD.pack(kinds[place % 4], 1.0 * place, 0.5 * place, 8) for place in range(40))]


CATALOGUE = (
    b'[[gpu]]\nname = "Lab card"\narch = "ada"\nsm = 60\nboost = "2.5 GHz"\nmem = "16 GB"\nbw = "500 GB/s"\ntdp = "200 W"\n'
)
PRICES = (
    b'currency = "EUR=1.08"\ndated = 2026-11-01\n[buy]\n"RTX 3090" = 700\n[rent]\n"H100 SXM 80GB" = 2.4\n'
    b'"RTX 4090" = { ondemand = 0.45, spot = 0.25, cloud = "my cloud" }\n'
)
CONFIG = (
    b'{"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 64, "num_hidden_layers": 2, "auto_map": {}}'
)
LANGUAGE_CONFIGS = tuple(
    json.dumps({"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8, **more}).encode()
    for more in (
        {
            "model_type": "llama",
            "intermediate_size": 512,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            "vocab_size": 1000,
        },
        {"model_type": "gpt2", "n_embd": 256, "n_layer": 4, "n_head": 8, "n_positions": 1024, "vocab_size": 1000},
        {
            "model_type": "qwen3_moe",
            "intermediate_size": 512,
            "num_key_value_heads": 2,
            "head_dim": 64,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 128,
            "max_position_embeddings": 4096,
            "vocab_size": 1000,
            "tie_word_embeddings": True,
        },
    )
)
MODELS = b"resnet50\n# the usual ones\nbert-base  # of language\ntimm:resnet50\n\nhf:gpt2\nmnist_cnn\n"


def ggufs(folder: Path) -> list[bytes]:
    """Headers alone, which are enough for a prediction; one whose tensors follow."""
    found = [header(*made) for made in (llama(), gpt_oss(), deepseek())]
    return [head for head, _ in found] + [found[0][0] + bytes(found[0][1])]


PARTS = {
    "psu": ("1600W gold atx3", "850", "1.2kW 80 plus platinum"),
    "lanes": ("X299", "44"),
    "board": ("slots=7,x16=4,spacing=2", "E-ATX"),
    "outlet": ("120V 15A", "230V 16A"),
    "room": ("12", "20 m2"),
    "ram": ("64GB",),
    "riser": ("PCIe 3.0 x1",),
    "chipset_link": ("PCIe 3.0 x4",),
    "cooler": ("blower",),
    "cpu": ("laptop", "fast desktop"),
    "power_limit": ("250W", "280"),
}

QUANTITIES = {
    "clock": ("1.7 GHz",),
    "bandwidth": ("936 GB/s", "100 Gbit/s", "25Gbps"),
    "power": ("350 W", "1.2 kW"),
    "time": ("412ms", "3 µs"),
    "flops": ("71 TFLOP/s",),
    "money": ("700 USD", "700$"),
}
