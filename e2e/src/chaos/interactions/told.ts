import type { Undelivered } from '@parlance/client';

/** The messages that agents send each other by number, and their fate. */

/** A page and its place. */
export interface Page {
  /** Unique among all pages. */
  readonly name: string;
  readonly agent: string;
  readonly session: string;
}

/** The messages of one session to one agent, by number from 1 on. */
interface Line {
  readonly by: Page;
  readonly to: string;
  last: number;
  readonly reported: Set<number>;
  /** How many were reported by a node that has taken the session over, and knows no numbers. */
  unnumbered: number;
  /** Numbers that were accepted, and that must arrive or be reported while both sessions continue. */
  readonly accepted: Set<number>;
  readonly read: Set<number>;
}

interface Missing {
  readonly by: string;
  readonly to: string;
  /** The sessions of both. */
  readonly between: readonly string[];
  readonly numbers: readonly number[];
}

export class Told {
  readonly counts = { read: 0, marked: 0, reported: 0 };
  readonly #fault: (name: string, what: string) => void;
  /** By sending session and receiving agent. */
  readonly #lines = new Map<string, Line>();
  /** The largest unmarked number, by sending session and receiving one. */
  readonly #lastRead = new Map<string, number>();
  readonly #unmarked = new Set<string>();

  constructor(fault: (name: string, what: string) => void) {
    this.#fault = fault;
  }

  /** @returns the number to tell. */
  tell(by: Page, to: string): number {
    return ++this.#lineOf(by, to).last;
  }

  accepted(by: Page, to: string, number: number): void {
    this.#lineOf(by, to).accepted.add(number);
  }

  reported(by: Page, { to, first, count }: Undelivered): void {
    this.counts.reported += count;
    const line = this.#lineOf(by, to);
    if (first === undefined) {
      line.unnumbered += count;
      return;
    }
    const { reported } = line;
    for (let number = first; number < first + count; number++) reported.add(number);
  }

  /** @param text the session and the agent that told, and the number. */
  read(receiver: Page, text: string, isMarked: boolean): void {
    const [session = '', agent = '', numberText] = text.split(' ');
    const number = Number(numberText);
    const line = this.#lines.get(`${session} ${receiver.agent}`);
    const what = `number ${number} of ${agent} (${session})`;
    if (line === undefined || !(number <= line.last))
      return this.#fault(receiver.name, `read ${what}, which was not told to it`);
    this.counts.read++;
    line.read.add(number);
    if (isMarked) {
      this.counts.marked++;
      return;
    }
    const pair = `${session} ${receiver.session}`;
    if (this.#unmarked.has(`${pair} ${number}`))
      return this.#fault(receiver.name, `read ${what} again, unmarked`);
    this.#unmarked.add(`${pair} ${number}`);
    const last = this.#lastRead.get(pair) ?? 0;
    // A reported message may arrive after later ones, as agents.md says under "Delivery".
    const isReported = line.reported.has(number) || line.unnumbered > 0;
    if (number < last && !isReported) this.#fault(receiver.name, `read ${what} after ${last}`);
    this.#lastRead.set(pair, Math.max(last, number));
  }

  /**
   * Numbers that have neither arrived nor been reported although both sessions have continued, with one page each.
   *
   * @param hasEnded whether a session has ended.
   */
  missing(pages: readonly Page[], hasEnded: (session: string) => boolean): readonly Missing[] {
    return [...this.#lines.values()].flatMap(({ by, to, accepted, reported, unnumbered, read }) => {
      const sessions = new Set(pages.filter(({ agent }) => agent === to).map(({ session }) => session));
      const senders = pages.filter(({ session }) => session === by.session);
      const hasChanged = sessions.size > 1 || senders.length > 1 || [by.session, ...sessions].some(hasEnded);
      const numbers = [...accepted].filter((number) => !read.has(number) && !reported.has(number));
      const between = [by.session, ...sessions];
      return hasChanged || numbers.length <= unnumbered ? [] : [{ by: by.agent, to, between, numbers }];
    });
  }

  #lineOf(by: Page, to: string): Line {
    const key = `${by.session} ${to}`;
    let line = this.#lines.get(key);
    if (line === undefined) {
      line = { by, to, last: 0, reported: new Set(), unnumbered: 0, accepted: new Set(), read: new Set() };
      this.#lines.set(key, line);
    }
    return line;
  }
}
