// The operator of `greeter.py` in JavaScript, without a library: node greeter.mjs. With --generated-names it
// has the bug of `greeter_twice.py`: what is created again is another object.

import { readFileSync } from "node:fs";
import { request } from "node:https";

const config = JSON.parse(readFileSync(process.env.KUBECONFIG)); // `fathom chaos` writes it as JSON.
const { server, "certificate-authority-data": authority } = config.clusters[0].cluster;
const { token } = config.users[0].user;
const ca = Buffer.from(authority, "base64");
const greetings = "/apis/example.dev/v1/namespaces/default/greetings";
const cards = "/api/v1/namespaces/default/configmaps";
const generated = process.argv.includes("--generated-names");

function ask(method, path, body, type = "application/json") {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": type };
    const sent = request(server + path, { method, ca, headers, timeout: 10_000 }, (answer) => {
      let text = "";
      answer.on("data", (piece) => (text += piece));
      answer.on("error", reject);
      answer.on("end", () => resolve({ status: answer.statusCode, body: JSON.parse(text) }));
    });
    sent.on("timeout", () => sent.destroy(new Error("no answer")));
    sent.on("error", reject);
    sent.end(body && JSON.stringify(body));
  });
}

async function must(method, path, body, type) {
  const answer = await ask(method, path, body, type);
  const exists = method === "POST" && answer.body.reason === "AlreadyExists";
  if (answer.status >= 300 && !exists) throw new Error(`${method} ${path}: ${answer.status}`);
  return answer.body;
}

async function makeCards({ metadata: { name, uid, generation }, spec: { copies, message } }) {
  const ownerReferences = [{ apiVersion: "example.dev/v1", kind: "Greeting", name, uid }];
  for (let number = 0; number < copies; number++) {
    const named = generated ? { generateName: `${name}-` } : { name: `${name}-${number}` };
    await must("POST", cards, { metadata: { ...named, ownerReferences }, data: { message } });
  }
  const status = { cards: copies, observedGeneration: generation };
  await must("PATCH", `${greetings}/${name}/status`, { status }, "application/merge-patch+json");
}

for (;;) {
  try {
    const { items } = await must("GET", greetings);
    for (const greeting of items) {
      if (greeting.status?.observedGeneration !== greeting.metadata.generation) await makeCards(greeting);
    }
  } catch (error) {
    console.log(`trying again: ${error.message}`);
  }
  await new Promise((resolve) => setTimeout(resolve, 1500));
}
