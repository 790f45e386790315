// Commands to type, in the words of kubectl or of fathom: people choose once. fathom takes kubectl's words.

const KEPT = "fathom-commands";
const listeners = new Set();

export const tool = () => (localStorage.getItem(KEPT) === "fathom" ? "fathom" : "kubectl");

export function chooseTool(name) {
  localStorage.setItem(KEPT, name);
  for (const listener of listeners) listener(name);
}

export function onTool(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// One word of a command, whatever the text is.
export const quoted = (text) => (/^[\w./:=,@%+-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);

// As cli/ask/typed_commands.py: wherever a shell would start kubectl, and not inside quotes.
export const typed = (text) => (tool() === "fathom" ? withFathom(text) : text);

export function withFathom(text) {
  let shown = "", end = 0;
  for (const start of starts(text)) {
    if (!text.startsWith("kubectl ", start)) continue;
    shown += `${text.slice(end, start)}fathom`;
    end = start + "kubectl".length;
  }
  return shown + text.slice(end);
}

function* starts(text) {
  let quote = "", expected = true;
  for (let place = 0; place < text.length; place++) {
    const char = text[place];
    if (quote) { if (char === quote) quote = ""; continue; }
    if (expected && !/\s/.test(char)) { yield place; expected = false; }
    if (char === "'" || char === '"') quote = char;
    else if ("|&;".includes(char)) expected = true;
  }
}
