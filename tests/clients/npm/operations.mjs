// Every operation of @open-policy-agent/opa, unchanged, against the server at the URL of the first
// argument: one JSON object by operation on standard output.
import { OPAClient } from "@open-policy-agent/opa";
import { OpaApiClientCore } from "@open-policy-agent/opa/core.js";
import { health } from "@open-policy-agent/opa/funcs/health.js";
import { OpaApiClient } from "@open-policy-agent/opa/sdk/sdk.js";

const url = process.argv[2];
const client = new OPAClient(url);
const sdk = new OpaApiClient({ serverURL: url });
const failed = async (work) => work.then(() => "no error", (error) => error.constructor.name);
const answers = {
  evaluate: await client.evaluate("shop/allow", { user: "ann" }),
  evaluateWithoutInput: await client.evaluate("shop/version"),
  evaluateFromResult: await client.evaluate(
    "shop/decision",
    { user: "ann" },
    { fromResult: (result) => result.allowed },
  ),
  evaluateFails: await failed(client.evaluate("shop/broken", { user: "ann" })),
  evaluateDefault: await client.evaluateDefault({ user: "ann" }),
  evaluateBatch: await client.evaluateBatch("shop/allow", {
    a: { user: "ann" },
    b: { user: "bob" },
  }),
  evaluateBatchRejects: await failed(
    client.evaluateBatch("shop/half", { a: { n: 1 }, b: { n: 2 } }, { rejectMixed: true }),
  ),
  evaluateBatchMixed: Object.entries(
    await client.evaluateBatch("shop/half", { a: { n: 1 }, b: { n: 2 } }),
  ).map(([name, value]) => [name, value.code ?? value]),
  getFilters: (await client.getFilters("filters/visible", { user: "ann" }, { target: "postgresql" }))
    .query,
  getMultipleFilters: Object.keys(
    await client.getMultipleFilters("filters/visible", { user: "ann" }, {
      targets: ["postgresql", "ucastPrisma"],
    }),
  ),
  executePolicy: (
    await sdk.executePolicy({ path: "shop/version", provenance: true, metrics: true })
  ).successfulPolicyResponse,
  executePolicyWithInput: (
    await sdk.executePolicyWithInput({
      path: "shop/allow",
      requestBody: { input: { user: "bob" } },
    })
  ).successfulPolicyResponse.result,
  executeDefaultPolicyWithInput: (await sdk.executeDefaultPolicyWithInput({ user: "ann" })).result,
  health: (await sdk.health()).healthyServer,
  healthFunction: (await health(new OpaApiClientCore({ serverURL: url }))).ok,
};
process.stdout.write(JSON.stringify(answers));
