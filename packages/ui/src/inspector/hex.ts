import { create } from '../shared/dom.js';

/** The bytes of a frame, as hexadecimal digits and as text, with a range of them lit. */

const WIDE = 16;
const NARROW = 8;
/** Characters before the bytes: the offset and two blanks. */
const OFFSET_WIDTH = 6;

export interface HexEvents {
  /** @param at the byte under the pointer. */
  onHover(at: number | undefined): void;
}

export class HexView {
  readonly element = create('div', { className: 'hex', tabIndex: 0 });
  readonly #text = create('pre');
  readonly #lit = create('div', { className: 'lit' });
  #digits = '';
  #perLine = WIDE;
  #range: readonly [start: number, end: number] | undefined;

  constructor({ onHover }: HexEvents) {
    this.element.setAttribute('role', 'region');
    this.element.ariaLabel = 'Bytes of the frame';
    this.element.append(this.#lit, this.#text);
    this.element.addEventListener('pointermove', (event) => onHover(this.#byteAt(event)));
    this.element.addEventListener('pointerleave', () => onHover(undefined));
    new ResizeObserver(() => {
      const { width } = this.#cell();
      const needed = (perLine: number) => (OFFSET_WIDTH + 4 * perLine + 1) * width;
      const { paddingLeft, paddingRight } = getComputedStyle(this.element);
      const room =
        this.element.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight);
      const perLine = room >= needed(WIDE) ? WIDE : NARROW;
      if (width === 0 || perLine === this.#perLine) return;
      this.#perLine = perLine;
      this.#write();
    }).observe(this.element);
  }

  /** @param digits two for each byte, `xx` for a masked one. */
  show(digits: string): void {
    this.#digits = digits;
    this.#range = undefined;
    this.#write();
  }

  light(range: readonly [start: number, end: number] | undefined, scroll = false): void {
    this.#range = range;
    this.#paint();
    if (!scroll || range === undefined) return;
    const { height } = this.#cell();
    const top = Math.floor(range[0] / this.#perLine) * height;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || top + height > scrollTop + clientHeight) this.element.scrollTop = top - height;
  }

  #write(): void {
    const lines: string[] = [];
    const count = this.#digits.length / 2;
    for (let at = 0; at < count; at += this.#perLine)
      lines.push(this.#line(at, Math.min(count, at + this.#perLine)));
    this.#text.textContent = lines.join('\n');
    this.#paint();
  }

  #line(start: number, end: number): string {
    let hex = '';
    let text = '';
    for (let at = start; at < end; at++) {
      const pair = this.#digits.slice(2 * at, 2 * at + 2);
      hex += pair === 'xx' ? '·· ' : `${pair} `;
      const code = Number.parseInt(pair, 16);
      text += pair === 'xx' ? '·' : code >= 0x20 && code < 0x7f ? String.fromCharCode(code) : '.';
    }
    return `${start.toString(16).padStart(4, '0')}  ${hex.padEnd(3 * this.#perLine)} ${text}`;
  }

  /** The size of a character in CSS pixels. */
  #cell(): { readonly width: number; readonly height: number } {
    const { lineHeight } = getComputedStyle(this.#text);
    const lines = Math.max(1, Math.ceil(this.#digits.length / 2 / this.#perLine));
    const height = this.#text.clientHeight / lines || Number.parseFloat(lineHeight) || 16;
    return { width: charWidth(this.#text), height };
  }

  #byteAt({ clientX, clientY }: PointerEvent): number | undefined {
    const { left, top } = this.#text.getBoundingClientRect();
    const { width, height } = this.#cell();
    const column = (clientX - left) / width - OFFSET_WIDTH;
    const line = Math.floor((clientY - top) / height);
    const inText = Math.floor(column - 3 * this.#perLine - 1);
    const within = inText >= 0 ? inText : Math.floor(column / 3);
    if (line < 0 || column < 0 || within >= this.#perLine) return undefined;
    const at = line * this.#perLine + within;
    return at < this.#digits.length / 2 ? at : undefined;
  }

  /** At most three boxes for the digits and three for the text: the first line, the last one, and those between. */
  #paint(): void {
    this.#lit.replaceChildren();
    if (this.#range === undefined) return;
    const count = this.#digits.length / 2;
    const [start, end] = [this.#range[0], Math.min(count, this.#range[1])];
    if (end <= start) return;
    const perLine = this.#perLine;
    const [firstLine, lastLine] = [Math.floor(start / perLine), Math.floor((end - 1) / perLine)];
    const box = (line: number, lines: number, from: number, to: number) => {
      if (lines <= 0) return;
      const textAt = OFFSET_WIDTH + 3 * perLine + 1;
      this.#box(line, lines, OFFSET_WIDTH + 3 * from, OFFSET_WIDTH + 3 * to - 1);
      this.#box(line, lines, textAt + from, textAt + to);
    };
    const lastEnd = ((end - 1) % perLine) + 1;
    if (firstLine === lastLine) return box(firstLine, 1, start % perLine, lastEnd);
    box(firstLine, 1, start % perLine, perLine);
    box(firstLine + 1, lastLine - firstLine - 1, 0, perLine);
    box(lastLine, 1, 0, lastEnd);
  }

  #box(line: number, lines: number, from: number, to: number): void {
    const { width, height } = this.#cell();
    const element = create('i');
    Object.assign(element.style, {
      top: `${line * height}px`,
      height: `${lines * height}px`,
      left: `${from * width}px`,
      width: `${(to - from) * width}px`,
    });
    this.#lit.append(element);
  }
}

let measured: { readonly font: string; readonly width: number } | undefined;

function charWidth(element: HTMLElement): number {
  const { font } = getComputedStyle(element);
  if (measured?.font === font) return measured.width;
  const context = create('canvas').getContext('2d');
  if (context === null) return 0;
  context.font = font;
  measured = { font, width: context.measureText('0'.repeat(100)).width / 100 };
  return measured.width;
}
