// Queries as a JSON list on standard input to what qs and querystring make of each of them.
import { readFileSync } from "node:fs";
import querystring from "node:querystring";
import qs from "qs";

const queries = JSON.parse(readFileSync(0, "utf8"));
const read = (reader) => queries.map((query) => {
  try {
    return [reader(query)];
  } catch {
    return [];
  }
});
// As handlers of fetch events read a form: `new URLSearchParams(await request.text())`.
const readParams = (query) => {
  const params = new URLSearchParams(query);
  return Object.fromEntries([...params.keys()].map((key) => [key, params.getAll(key)]));
};
console.log(
  JSON.stringify({
    qs: read(qs.parse),
    querystring: read(querystring.parse),
    URLSearchParams: read(readParams),
  }),
);
