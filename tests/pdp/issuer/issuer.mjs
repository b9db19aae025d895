// An issuer whose keys change when it is told to: POST /rotate/N publishes the keys 1 to N, and signs with
// the newest; POST /retire forgets all but that one. With the URL of a console as the second argument people log in
// to it, in the forms that the package brings for development.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import Provider from "oidc-provider";

const issuer = process.argv[2];
const redirect = process.argv[3];
const made = [];
let first = 0;
let count = 1;

function key(number) {
  made[number] ??= generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });
  return { ...made[number], kid: `key-${number}`, use: "sig", alg: "RS256" };
}

function serve() {
  const keys = [];
  for (let number = count - 1; number >= first; number--) keys.push(key(number));
  const provider = new Provider(issuer, {
    clients: [
      { client_id: "ann", client_secret: "a-secret", grant_types: ["client_credentials"], redirect_uris: [], response_types: [] },
      ...(redirect ? [
        { client_id: "console", client_secret: "c:secret/+%", redirect_uris: [redirect] },
        { client_id: "public", token_endpoint_auth_method: "none", redirect_uris: [redirect] },
      ] : []),
    ],
    jwks: { keys },
    features: {
      devInteractions: { enabled: Boolean(redirect) },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => "urn:people",
        getResourceServerInfo: () => ({ scope: "", accessTokenFormat: "jwt", jwt: { sign: { alg: "RS256" } } }),
      },
    },
  });
  return provider.callback();
}

let answer = serve();
createServer((request, response) => {
  if (request.method === "POST" && request.url === "/rotate") count += 1;
  else if (request.method === "POST" && request.url === "/retire") first = count - 1;
  else return answer(request, response);
  answer = serve();
  response.end();
}).listen(Number(new URL(issuer).port), "127.0.0.1");
