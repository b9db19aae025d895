// console/src -> src/doorward/console/static: two scripts, the second loaded with the playground.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import * as esbuild from "esbuild";

const folder = new URL("examples/", import.meta.url);

// The policies and the description of an example, which are files for editors and tests.
function example(name) {
  const text = (file) => readFileSync(new URL(`${name}/${file}`, folder), "utf8");
  const policies = readdirSync(new URL(name, folder)).filter((file) => file.endsWith(".rego")).sort();
  return { ...JSON.parse(text("example.json")), files: Object.fromEntries(policies.map((file) => [file, text(file)])) };
}

const examples = readdirSync(folder).map(example).sort((a, b) => a.order - b.order);
writeFileSync(new URL("src/examples.js", import.meta.url), `export const EXAMPLES = ${JSON.stringify(examples)};\n`);

const out = new URL("../src/doorward/console/static/", import.meta.url).pathname;
rmSync(out, { recursive: true, force: true });
await esbuild.build({
  entryPoints: ["src/console.js", "src/console.css"],
  outdir: out,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  chunkNames: "[name]-[hash]",
  logLevel: "warning",
});
