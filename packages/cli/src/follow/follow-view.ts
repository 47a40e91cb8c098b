import type { ReplyInfo, SessionState } from '@parlance/protocol';
import { printable } from '@parlance/protocol/inspect';
import type { Style, Terminal } from '../base/terminal.js';
import { widthOf, wrap } from '../base/text-layout.js';
import { replyLines } from './reply-table.js';

/** The output of `parlance follow`: the reply alone on `output`, everything else on `errors`. */
export interface FollowView {
  connecting(url: string): void;
  following(reply: string, after: number): void;
  part(text: string): void;
  /** No part has come for a while. @param next the number of the next part. */
  waiting(next: number): void;
  state(state: SessionState): void;
  complete(parts: number): void;
  /** @param rest the command line that prints the rest of the reply. */
  left(rest: string): void;
  /** Ends the last line of the reply. */
  end(): void;
  stopped(reply: string): void;
  list(replies: readonly ReplyInfo[]): void;
}

export interface FollowViewOptions {
  /** Print only the reply. */
  readonly quiet: boolean;
  /** @default now */
  readonly now?: (() => Date) | undefined;
}

export function createFollowView(output: Terminal, errors: Terminal, options: FollowViewOptions): FollowView {
  const { now = () => new Date() } = options;
  /** The width of the present line of the reply; `undefined` if nothing of it is printed. */
  let column: number | undefined;

  const endLine = () => {
    if (column !== undefined) output.write('\n');
    column = undefined;
  };
  const note = (text: string, style: Style = 'faint') => {
    if (options.quiet) return;
    // On a terminal, both streams share the screen.
    if (output.isInteractive) endLine();
    for (const line of wrap(printable(text), errors.columns)) errors.write(`${errors.style(style, line)}\n`);
  };

  /** Prints a part of a line; on a terminal, breaks it between words if possible. */
  const print = (text: string) => {
    if (text === '') return;
    if (!output.isInteractive) {
      column = 0;
      output.write(text);
      return;
    }
    for (const word of printable(text).match(/ *[^ ]+| +$/g) ?? []) {
      const start = column ?? 0;
      const fits = start + widthOf(word) <= output.columns;
      const [first = '', ...more] = fits ? [word] : wrap(word.trimStart(), output.columns);
      if (!fits && start > 0) output.write('\n');
      output.write([first, ...more].map((line) => output.style('strong', line)).join('\n'));
      column = fits ? start + widthOf(word) : widthOf(more.at(-1) ?? first);
    }
  };

  return {
    connecting(url) {
      note(`parlance ${url}`, 'strong');
    },

    following(reply, after) {
      note(`following ${reply} from ${after === 0 ? 'its beginning' : `part ${number(after + 1)}`}`);
    },

    part(text) {
      for (const [i, line] of text.split('\n').entries()) {
        if (i > 0) {
          column ??= 0;
          endLine();
        }
        print(line);
      }
    },

    waiting: (next) =>
      note(`● waiting for part ${number(next)}; Ctrl-C leaves, and the reply continues`, 'notice'),
    state: (state) =>
      note(state === 'suspended' ? '● connection lost, reconnecting' : '● connected again', 'notice'),
    complete: (parts) => note(`the reply is complete: ${number(parts)} ${parts === 1 ? 'part' : 'parts'}`),
    left: (rest) => note(`left; continue with: ${rest}`),
    end: endLine,
    stopped: (reply) => note(`stopped ${reply}`),

    list(replies) {
      if (replies.length === 0) note('the server keeps no reply that you may follow');
      for (const line of replyLines(output, replies, now())) output.write(`${line}\n`);
    },
  };
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}
