import { styleText } from 'node:util';

/** An output stream: with colours and a width if it is a terminal, else plain text. */
export interface Terminal {
  /** Whether the stream is a terminal. */
  readonly isInteractive: boolean;
  /** Present width in columns; infinite without a terminal. */
  readonly columns: number;
  /** Present height in lines; infinite without a terminal. */
  readonly rows: number;
  style(style: Style, text: string): string;
  write(data: string | Uint8Array): void;
}

export type Style = 'strong' | 'faint' | 'good' | 'bad' | 'notice' | 'sent' | 'received' | 'name' | 'value';

const FORMATS = {
  strong: 'bold',
  faint: 'dim',
  good: 'green',
  bad: 'red',
  notice: 'yellow',
  sent: 'cyan',
  received: 'green',
  name: 'bold',
  value: 'cyan',
} as const satisfies Record<Style, Parameters<typeof styleText>[0]>;

/** The part of a Node stream that is used; `hasColors` honours NO_COLOR, FORCE_COLOR and TERM. */
export interface OutputStream {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
  hasColors?(): boolean;
  write(data: string | Uint8Array): boolean;
}

export function createTerminal(stream: OutputStream): Terminal {
  const isInteractive = stream.isTTY === true;
  const hasColors = isInteractive && stream.hasColors?.() === true;
  return {
    isInteractive,
    get columns() {
      // A terminal of unknown size reports 0.
      return isInteractive ? stream.columns || DEFAULT_COLUMNS : Number.POSITIVE_INFINITY;
    },
    get rows() {
      return isInteractive ? stream.rows || DEFAULT_ROWS : Number.POSITIVE_INFINITY;
    },
    style: (style, text) =>
      hasColors && text !== '' ? styleText(FORMATS[style], text, { validateStream: false }) : text,
    write: (data) => {
      stream.write(data);
    },
  };
}

const DEFAULT_COLUMNS = 80;
const DEFAULT_ROWS = 24;
