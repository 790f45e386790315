// Requests to the Kubernetes API with the session of this page. Every refusal is an ApiError with a sentence.
//
//   await get("/api/v1/namespaces/default/pods/web-1")
//   await list("/api/v1/pods")                             -> {items, resourceVersion}, read in pages
//   await ask("explanations", {subject: {kind: "pod", name: "web-1"}}, "default")   -> the answer (status)
//   await send("PATCH", path, body)                        changes: 403 in a read-only session

import {setServerTime} from "./text.js";

export const OWN = "/apis/fathom.dev/v1alpha1";
export const SYSTEM = "fathom-system";  // The namespace of questions about what has none.
const KEY = "fathom-key";
const PAGE_SIZE = 500;
const KINDS = {explanations: "Explanation", timelines: "Timeline", couplings: "Coupling",
  overridepreviews: "OverridePreview", decisions: "Decision"};

export class ApiError extends Error {
  constructor(status, reason, message) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

let ended = () => {};
export const onSessionEnd = (callback) => { ended = callback; };

export const sessionKey = () => localStorage.getItem(KEY) ?? "";
export const keepKey = (key) => (key ? localStorage.setItem(KEY, key) : localStorage.removeItem(KEY));

export async function fetchWithKey(path, options = {}) {
  const headers = {"X-Fathom-Key": sessionKey(), ...options.headers};
  return fetch(path, {...options, headers, cache: "no-store", credentials: "same-origin", redirect: "error"});
}

export async function send(method, path, body, {media, signal, raw} = {}) {
  const headers = {Accept: raw ? "*/*" : "application/json"};
  if (body !== undefined) headers["Content-Type"] = media ?? (method === "PATCH" ? "application/merge-patch+json" : "application/json");
  let response;
  try {
    response = await fetchWithKey(path, {method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body)});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "NoAnswer", "the API server does not answer");
  }
  setServerTime(response.headers.get("date"));
  if (response.ok) return raw ? response.text() : response.json();
  throw await refusal(response);
}

export async function refusal(response) {
  let status = {};
  try { status = await response.json(); } catch { /* Not a Status: the code has to do. */ }
  const error = new ApiError(response.status, status.reason ?? "", status.message ?? `the API server answered with HTTP ${response.status}`);
  if (response.status === 401) ended(error);
  return error;
}

export const get = (path, options) => send("GET", path, undefined, options);

export async function list(path, options) {
  const items = [];
  let next = "", resourceVersion = "";
  do {
    const query = new URLSearchParams({limit: PAGE_SIZE, ...(next ? {continue: next} : {})});
    const page = await get(`${path}${path.includes("?") ? "&" : "?"}${query}`, options);
    for (const item of page.items ?? []) items.push(item);
    next = page.metadata?.continue ?? "";
    resourceVersion = page.metadata?.resourceVersion ?? resourceVersion;
  } while (next);
  return {items, resourceVersion};
}

// A question: answered and never stored. The answer is its status.
export async function ask(plural, spec, namespace = SYSTEM, options = {}) {
  const path = `${OWN}/namespaces/${encodeURIComponent(namespace)}/${plural}`;
  const body = {apiVersion: "fathom.dev/v1alpha1", kind: KINDS[plural] ?? plural, spec};
  return (await send("POST", path, body, options)).status ?? {};
}

// The address of a collection: collection("apps/v1", "deployments", "default").
export function collection(groupVersion, plural, namespace = "") {
  const root = groupVersion === "v1" ? "/api/v1" : `/apis/${groupVersion}`;
  return `${root}${namespace ? `/namespaces/${encodeURIComponent(namespace)}` : ""}/${plural}`;
}

// Login and logout.

export async function logIn(credentials) {
  const session = await send("POST", "/ui/session", credentials);
  keepKey(session.key);
  return session;
}

export const whoAmI = () => get("/ui/session");

export async function logOut() {
  try { await send("DELETE", "/ui/session"); } finally { keepKey(""); }
}
