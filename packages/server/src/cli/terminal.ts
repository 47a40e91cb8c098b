import { styleText } from 'node:util';

/** What the command line writes to: colours and a width where a person looks, plain text elsewhere. */
export interface Terminal {
  /** Whether somebody sees what is written as it is written. */
  readonly isInteractive: boolean;
  /** Columns of a line, now; unlimited where nobody looks. */
  readonly columns: number;
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

/** What is used of a stream; `hasColors` honours NO_COLOR, FORCE_COLOR and TERM. */
export interface OutputStream {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  hasColors?(): boolean;
  write(data: string | Uint8Array): boolean;
}

export function createTerminal(stream: OutputStream): Terminal {
  const isInteractive = stream.isTTY === true;
  const hasColors = isInteractive && stream.hasColors?.() === true;
  return {
    isInteractive,
    get columns() {
      // A terminal that does not know its size states 0.
      return isInteractive ? stream.columns || DEFAULT_COLUMNS : Number.POSITIVE_INFINITY;
    },
    style: (style, text) =>
      hasColors && text !== '' ? styleText(FORMATS[style], text, { validateStream: false }) : text,
    write: (data) => {
      stream.write(data);
    },
  };
}

const DEFAULT_COLUMNS = 80;
