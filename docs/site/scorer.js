// Search puts pages for users before those that say why something was built so, and before long tables.
var Scorer = {
  score: ([docname, title, anchor, description, score]) =>
    docname.startsWith("decisions/") ? score - 20 : ["json", "kind-fields"].includes(docname) ? score - 10 : score,
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
