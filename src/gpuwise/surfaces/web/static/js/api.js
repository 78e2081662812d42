// Questions to the server. A refusal becomes an error with its hint; an answer that is no longer wanted is dropped.

export class Refused extends Error {
  constructor(status, told) {
    super(typeof told.error === "string" ? told.error : "the request could not be understood");
    this.status = status;
    this.hint = told.hint || "";
    this.looked = told.looked_in || "";
  }
}

const kept = new Map();

// A request to the server, which may have been stopped.
async function request(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { error: "the gpuwise server does not respond", hint: "check that gpuwise serve is still running, and then reload this page" });
  }
}

async function received(response) {
  const told = await response.json().catch(() => ({ error: `the server responded with status ${response.status}` }));
  if (!response.ok) throw new Refused(response.status, told);
  return told;
}

export async function ask(question, options, signal) {
  const body = JSON.stringify(Object.fromEntries(Object.entries(options).filter(([, value]) => value != null && value !== "")));
  const key = `${question} ${body}`;
  if (kept.has(key)) return kept.get(key);
  const answer = await received(
    await request(`/api/${question}`, { method: "POST", headers: { "Content-Type": "application/json" }, body, signal }),
  );
  if (kept.size > 200) kept.delete(kept.keys().next().value);
  kept.set(key, answer);
  return answer;
}

export async function look(name, signal) {
  if (!kept.has(name)) kept.set(name, await received(await request(`/api/${name}`, { signal })));
  return kept.get(name);
}

// With `compare`, the last file is a second run.
export async function send(files, gpu, signal, compare = false) {
  const query = new URLSearchParams();
  for (const file of files) {
    query.append("name", file.name.slice(-200));
    query.append("size", file.size);
  }
  if (gpu) query.set("gpu", gpu);
  if (compare) query.set("compare", "true");
  return received(await request(`/api/why?${query}`, { method: "POST", body: new Blob(files), signal }));
}
