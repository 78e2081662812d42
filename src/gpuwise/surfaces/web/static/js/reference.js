// The API's reference, made from the server's own OpenAPI description.

import { card, h, head, left, row, table } from "./ui.js";

const spec = await (await fetch("openapi.json")).json();
const resolve = (schema) => (schema?.$ref ? spec.components.schemas[schema.$ref.split("/").at(-1)] : schema);

function type(schema) {
  const given = resolve(schema);
  if (given.anyOf) return given.anyOf.map(type).filter((name) => name !== "null").join(" or ");
  if (given.type === "array") return `list of ${type(given.items)}`;
  return given.type ?? "any";
}

function limits(schema) {
  const given = [schema, ...(schema.anyOf ?? [])].map(resolve);
  const of = (key) => given.map((entry) => entry[key]).find((value) => value != null);
  const pairs = [["≥", of("minimum")], [">", of("exclusiveMinimum")], ["≤", of("maximum")], ["at most", of("maxItems")], ["at least", of("minItems")]];
  return pairs.filter(([, value]) => value != null).map(([word, value]) => `${word} ${value.toLocaleString("en-US")}`).join(", ");
}

function route(path, method, told) {
  const body = resolve(told.requestBody?.content?.["application/json"]?.schema);
  const fields = body ? Object.entries(body.properties ?? {}).map(([name, schema]) => [name, schema, body.required?.includes(name)]) : (told.parameters ?? []).map((entry) => [`?${entry.name}`, entry.schema, entry.required]);
  return card(`${method.toUpperCase()} ${path}`,
    h("p", {}, told.description ?? told.summary ?? ""),
    fields.length > 0 && table(["", head("type"), head("limits"), head("")], fields.map(([name, schema, needed]) => row([h("code", {}, name), left(type(schema)), left(limits(schema)), left(needed ? "required" : "")])), { caption: `Options of ${path}` }));
}

const main = document.getElementById("view");
main.append(...Object.entries(spec.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, told]) => route(path, method, told))));
