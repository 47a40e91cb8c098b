/** Pieces of Markdown that the generated sections are made of. */

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

export function fence(language: string, text: string): string {
  return `\`\`\`${language}\n${text}\n\`\`\``;
}

export function code(text: string): string {
  return `\`${text}\``;
}

export function byte(value: number): string {
  return `0x${value.toString(16).padStart(2, '0')}`;
}

/** The bytes as pairs of digits. */
export function digits(bytes: Iterable<number>): string {
  return [...bytes].map((each) => each.toString(16).padStart(2, '0')).join(' ');
}

/** 16 bytes per line, followed by their printable characters. */
export function hex(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const text = row.map((each) => (each >= 0x20 && each < 0x7f ? String.fromCharCode(each) : '.')).join('');
    lines.push(`${digits(row).padEnd(47)}  ${text}`);
  }
  return fence('text', lines.join('\n'));
}
