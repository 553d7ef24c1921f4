// An OpenID Connect provider on a free port of 127.0.0.1:
//   node provider.js ['{"keys": [...]}']
//
// The argument has its private keys; without it, one of the package is used, which everyone knows. The
// provider prints its issuer URL when it is ready, and stops when its standard input ends, so that it never
// outlives the tests.
//
// It issues JWT access tokens to the client `ci` (client_credentials). The path of the requested resource
// is the signature algorithm, and its origin the audience.
import { createServer } from "node:http";

import Provider from "oidc-provider";

let provider;

function resourceServer(_context, resource) {
  const { origin, pathname } = new URL(resource);
  return {
    scope: "read persons:write billing",
    audience: origin,
    accessTokenFormat: "jwt",
    accessTokenTTL: 600,
    jwt: { sign: { alg: pathname.slice(1) } },
  };
}

function start(issuer, jwks) {
  provider = new Provider(issuer, {
    jwks,
    clients: [
      {
        client_id: "ci",
        client_secret: "secret",
        token_endpoint_auth_method: "client_secret_post",
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
        id_token_signed_response_alg: jwks?.keys[0].alg,
      },
    ],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: { enabled: true, getResourceServerInfo: resourceServer },
    },
  }).callback();
}

const server = createServer((request, response) => provider(request, response));
process.stdin.resume().on("end", () => process.exit());
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  start(issuer, process.argv[2] && JSON.parse(process.argv[2]));
  console.log(issuer);
});
