// Label selectors: as the text of a query, and against labels. Pure.

const OPERATORS = {In: "in", NotIn: "notin"};

export function selectorText(selector = {}) {
  const equal = Object.entries(selector.matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  const others = (selector.matchExpressions ?? []).map(({key, operator, values = []}) => (
    operator === "Exists" ? key : operator === "DoesNotExist" ? `!${key}` : `${key} ${OPERATORS[operator]} (${values.join(",")})`));
  return [...equal, ...others].join(",");
}

export function selects(selector, labels) {
  return Object.entries(selector.matchLabels ?? {}).every(([key, value]) => labels[key] === value)
    && (selector.matchExpressions ?? []).every(({key, operator, values = []}) => {
      const has = key in labels;
      if (operator === "Exists") return has;
      if (operator === "DoesNotExist") return !has;
      return operator === "In" ? has && values.includes(labels[key]) : !has || !values.includes(labels[key]);
    });
}
