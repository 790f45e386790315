// A file that the page made, or fetched with the session's key, saved by the browser.

import {h} from "./dom.js";

export function download(name, content, type = "application/octet-stream") {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}));
  const link = h("a", {href: address, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
