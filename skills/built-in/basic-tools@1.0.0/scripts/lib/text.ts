// Turns bytes into something that fits into JSON: text when they are text, base64 when they are not.

export type Encoded = { text: string; encoding: "utf8" | "base64" };

/** The bytes as UTF-8 text, or undefined when they are not UTF-8. A byte order mark is kept. */
export function asUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The length of `bytes` without a character that was cut off at the end (at most 3 bytes shorter). */
export function wholeCharacters(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(4, bytes.length); back++) {
    const byte = bytes[bytes.length - back];
    if ((byte & 0b1100_0000) === 0b1000_0000) continue;
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needs > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

/** Text when the bytes are UTF-8 (cut at a whole character when `truncated`), else base64. */
export function encode(bytes: Buffer, truncated: boolean): Encoded {
  const text = asUtf8(truncated ? bytes.subarray(0, wholeCharacters(bytes)) : bytes);
  return text === undefined ? { text: bytes.toString("base64"), encoding: "base64" } : { text, encoding: "utf8" };
}
