// Checks a tool's arguments against its schema file and fills in the defaults. It knows the part of
// JSON Schema that the schema files here use, and words each mistake so that a model can correct it.

export type Property = {
  type?: string | string[];
  description?: string;
  default?: unknown;
  enum?: unknown[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  minItems?: number;
  pattern?: string;
  items?: { type: string };
  additionalProperties?: { type: string };
};

export type Schema = {
  description: string;
  properties: Record<string, Property>;
  required?: string[];
  examples?: unknown[];
};

/** Returns the arguments with defaults filled in; throws one error that lists every mistake. */
export function checkArguments(schema: Schema, given: unknown): Record<string, unknown> {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new Error(`the argument must be a JSON object with ${names(schema)}; it is ${show(given)}`);
  }
  const mistakes: string[] = [];
  const args: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(schema.properties, name)) mistakes.push(unknownParameter(schema, name));
    else if (value !== null) args[name] = value; // models send null for "not given"
  }
  for (const [name, property] of Object.entries(schema.properties)) {
    if (!Object.hasOwn(args, name)) {
      if (property.default !== undefined) args[name] = property.default;
      else if (schema.required?.includes(name)) {
        mistakes.push(`missing parameter "${name}": expected ${expected(property)}. ${property.description ?? ""}`.trim());
      }
      continue;
    }
    const mistake = checkValue(name, property, args[name]);
    if (mistake !== undefined) mistakes.push(mistake);
  }
  if (mistakes.length > 0) throw new Error(mistakes.join("; "));
  return args;
}

function unknownParameter(schema: Schema, name: string): string {
  const plain = (text: string) => text.toLowerCase().replace(/[^a-z0-9]/g, "");
  const near = Object.keys(schema.properties).find((known) => {
    const [a, b] = [plain(known), plain(name)];
    return b.length > 1 && (a === b || a.startsWith(b) || b.startsWith(a) || distance(a, b) <= 2);
  });
  const hint = near === undefined ? "" : `; did you mean "${near}"?`;
  return `unknown parameter "${name}"${hint} (this tool takes ${names(schema)})`;
}

function checkValue(name: string, property: Property, value: unknown): string | undefined {
  const wrong = (what: string) => `parameter "${name}": expected ${what}, got ${show(value)}`;
  if (property.type !== undefined && !types(property).some((type) => hasType(type, value))) return wrong(expected(property));
  if (property.enum !== undefined && !property.enum.includes(value)) return wrong(expected(property));
  if (typeof value === "number") {
    if (property.minimum !== undefined && value < property.minimum) return wrong(expected(property));
    if (property.maximum !== undefined && value > property.maximum) return wrong(expected(property));
  }
  if (typeof value === "string") {
    if (property.minLength !== undefined && value.length < property.minLength) return wrong("a string that is not empty");
    if (property.pattern !== undefined && !new RegExp(property.pattern).test(value)) {
      return wrong(`a string that matches ${property.pattern}`);
    }
  }
  if (Array.isArray(value)) return checkItems(name, property, value);
  if (typeof value === "object" && value !== null && property.additionalProperties !== undefined) {
    const type = property.additionalProperties.type;
    for (const [key, item] of Object.entries(value)) {
      if (!hasType(type, item)) return `parameter "${name}": expected ${article(type)} for "${key}", got ${show(item)}`;
    }
  }
  return undefined;
}

function checkItems(name: string, property: Property, value: unknown[]): string | undefined {
  if (value.length < (property.minItems ?? 0)) return `parameter "${name}": expected at least ${property.minItems} item, got none`;
  const type = property.items?.type;
  const index = type === undefined ? -1 : value.findIndex((item) => !hasType(type, item));
  if (type === undefined || index < 0) return undefined;
  return `parameter "${name}": expected ${article(type)} at position ${index}, got ${show(value[index])}`;
}

function hasType(type: string, value: unknown): boolean {
  switch (type) {
    case "integer":
      return Number.isSafeInteger(value);
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    default:
      return typeof value === type;
  }
}

function expected(property: Property): string {
  if (property.enum !== undefined) return `one of ${property.enum.map((value) => JSON.stringify(value)).join(", ")}`;
  const { minimum, maximum } = property;
  const range = minimum !== undefined && maximum !== undefined ? ` from ${minimum} to ${maximum}` : minimum !== undefined ? ` of at least ${minimum}` : "";
  const kind = types(property).map((type) => (type === "array" && property.items ? `an array of ${property.items.type}s` : article(type)));
  return (kind.join(" or ") || "a value") + range;
}

function types(property: Property): string[] {
  return property.type === undefined ? [] : [property.type].flat();
}

function article(type: string): string {
  return (/^[aeiou]/.test(type) ? "an " : "a ") + type;
}

function names(schema: Schema): string {
  return Object.keys(schema.properties).join(", ");
}

/** Names a value and its type, short enough for an error message. */
function show(value: unknown): string {
  if (value === null) return "null";
  const text = JSON.stringify(value);
  const short = text.length > 60 ? text.slice(0, 57) + "…" : text;
  return `the ${Array.isArray(value) ? "array" : typeof value} ${short}`;
}

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length];
}
