// An OpenID Connect provider on a free port of 127.0.0.1:
//   node provider.js ['{"keys": [...]}']
//
// The argument has its private keys; without it, one of the package is used, which everyone knows. The
// provider prints its issuer URL when it is ready, and stops when its standard input ends, so that it never
// outlives the tests.
//
// It issues JWT access tokens to the client `ci` (client_credentials). The path of the requested resource
// is the signature algorithm, and its origin the audience. Beside the paths of the provider, there are:
//   PUT /test/keys      replaces the private keys with those of a JSON Web Key Set
//   PUT /test/status    sets the status of every response to the service; 200 for those of the provider
//   GET /test/requests  returns how often the keys were requested
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

import Provider from "oidc-provider";

let issuer;
let provider;
let status = 200;
let keyRequests = 0;

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

function useKeys(jwks) {
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

async function control(request, response) {
  if (request.url === "/test/keys") {
    useKeys(await json(request));
  } else if (request.url === "/test/status") {
    status = await json(request);
  }
  response.end(JSON.stringify(keyRequests));
}

const server = createServer((request, response) => {
  keyRequests += request.url === "/jwks";
  if (request.url.startsWith("/test/")) {
    control(request, response);
  } else if (status !== 200) {
    response.writeHead(status).end();
  } else {
    provider(request, response);
  }
});
process.stdin.resume().on("end", () => process.exit());
server.listen(0, "127.0.0.1", () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  useKeys(process.argv[2] && JSON.parse(process.argv[2]));
  console.log(issuer);
});
