// Rights of tokens as text.

export function rightText(right) {
  if (typeof right === "string") return right;
  const limits = ["zones", "names", "types"].filter((key) => right[key]).map((key) => `${key} ${right[key].join(", ")}`);
  return limits.length > 0 ? `${right.right} (${limits.join("; ")})` : right.right;
}
