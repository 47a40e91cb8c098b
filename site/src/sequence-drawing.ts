/**
 * Draws what our documents use of Mermaid's sequence diagrams: participants, messages (`->>`, `-->>`, and `--x` for one that is lost),
 * notes over participants, and `alt`. The library that draws states leaves no room for long messages, and draws a lost one as one
 * that arrives.
 */

const CHARACTER = 6.6;
const NAME = { width: 84, height: 30 };

/** @returns SVG. @throws Error at a line that it does not know. */
export function sequenceDrawing(source: string): string {
  const gap = Math.max(...[...source.matchAll(/: (.+)$/gm)].map(([, text = '']) => widthOf(text)));
  const places = new Map<string, number>();
  const drawn: string[] = [];
  const frames: number[] = [];
  let y = NAME.height;
  const width = () => gap * (places.size - 1) + NAME.width + 4;
  const at = (id = ''): number => {
    const x = places.get(id);
    if (x === undefined) throw new Error(`the drawing has no participant ${id}`);
    return x;
  };

  const lines: readonly [RegExp, (...parts: string[]) => void][] = [
    [
      /^participant (\w+) as (.+)$/,
      (id, name = '') => {
        const x = gap * places.size + NAME.width / 2 + 2;
        places.set(id, x);
        drawn.push(box('name', x - NAME.width / 2, 1, NAME.width, NAME.height), text('name', x, 21, name));
      },
    ],
    [
      /^(\w+)(--?)(>>|x)(\w+): (.+)$/,
      (from, line, head, to, label = '') => {
        y += 36;
        const isLost = head === 'x';
        const [begin, end] = [at(from), at(to)];
        const x = isLost ? begin + 0.6 * (end - begin) : end;
        drawn.push(
          text('', (begin + end) / 2, y - 7, label),
          `<path class="${line === '--' ? 'dashed' : ''}" d="M${begin} ${y}H${x}"/>`,
          isLost
            ? `<path class="lost" d="M${x - 5} ${y - 5}l10 10m0-10l-10 10"/>`
            : `<path class="head" d="M${x} ${y}l${x > begin ? -8 : 8}-4v8z"/>`,
        );
      },
    ],
    [
      /^Note over (\w+)(?:,(\w+))?: (.+)$/,
      (first, last, note = '') => {
        const half = widthOf(note) / 2;
        // Within the drawing, whose edges are near the outer participants.
        const x = Math.min(Math.max((at(first) + at(last || first)) / 2, half + 1), width() - half - 1);
        drawn.push(box('note', x - half, y + 10, 2 * half, 24), text('', x, y + 26, note));
        y += 36;
      },
    ],
    [
      /^(alt|else)(?: (.+))?$/,
      (word = '', condition = '') => {
        y += 14;
        frames.push(y);
        drawn.push(text('block', 8, y + 15, word === 'alt' ? `if ${condition}` : word));
        if (word === 'else') drawn.push(`<path class="dashed" d="M1 ${y}h${width() - 2}"/>`);
        y += 8;
      },
    ],
    [
      /^end$/,
      () => {
        const [top = 0] = frames.splice(0);
        y += 12;
        drawn.push(box('block', 1, top, width() - 2, y - top));
      },
    ],
  ];
  for (const line of source
    .trim()
    .split('\n')
    .slice(1)
    .map((each) => each.trim())) {
    const [form, draw] = lines.find(([form]) => form.test(line)) ?? [];
    if (draw === undefined) throw new Error(`the drawing has a line that is not known: ${line}`);
    draw(...(form?.exec(line)?.slice(1) ?? []));
  }
  const height = y + 16;
  const lives = [...places.values()].map((x) => `<path class="life" d="M${x} ${NAME.height}V${height}"/>`);
  return `<svg viewBox="0 0 ${width()} ${height}" width="${width()}">${[...lives, ...drawn].join('')}</svg>`;
}

const widthOf = (text: string): number => text.length * CHARACTER + 20;

const box = (name: string, x: number, y: number, width: number, height: number): string =>
  `<rect class="${name}" x="${x}" y="${y}" width="${width}" height="${height}" rx="4"/>`;

const text = (name: string, x: number, y: number, words: string): string =>
  `<text class="${name}" x="${x}" y="${y}">${words.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</text>`;
