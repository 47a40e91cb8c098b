import type { Undelivered } from '@parlance/client';
import { Ledger } from '../cluster/ledger.js';
import type { DatedEffect } from '../durable/effects.js';
import { type Failure, type Happening, mayEnd, rowFor } from './allowed.js';
import { Places } from './places.js';
import { numberOf, PLAIN_AGENTS, type Question } from './settings.js';
import { type Page, Told } from './told.js';

/**
 * The checker of a history. It compares what each page says, asks, reads and is told with what the others do, and looks up
 * each error among those that the documents allow for what has happened. Its users are pages: a page that is loaded again
 * may continue the session of the page before it.
 */

interface Asked {
  readonly question: Question;
  readonly to: string | undefined;
  readonly page: Page;
  readonly at: number;
  endedAt: number | undefined;
  readonly texts: string[];
  keptId: string | undefined;
}

/** One reader of a kept reply, from a position on. */
export interface Follower {
  readonly who: string;
  readonly isDurable: boolean;
  readonly question: string;
  readonly from: number;
  readonly at: number;
  readonly texts: string[];
}

export interface Fault {
  readonly at: number;
  readonly what: string;
}

/** Of the replies that nothing may end. */
const MIN_COMPLETE = 0.95;

/** The facts about it before the lines of the nodes are read. */
type FailureAtPages = Omit<Failure, 'handlers' | 'owners' | 'isUnkept'>;

export class InteractionLedger extends Ledger {
  readonly happenings: Happening[] = [];
  readonly found: Fault[] = [];
  readonly told = new Told((name, what) => this.fault(name, what));
  readonly counts = { followed: 0, expected: 0, complete: 0, allowed: 0 };
  readonly #pages = new Map<string, Page & { readonly at: number }>();
  /** Pages whose sessions have ended, although they stay. */
  readonly #over = new Set<string>();
  /** Those that another one of the same client has followed, and when, in Unix milliseconds. */
  readonly #followedAt = new Map<string, number>();
  /** Counted messages before a page, as the application says. */
  readonly #before = new Map<string, number>();
  readonly #asks = new Map<string, Asked>();
  readonly #followers: Follower[] = [];
  readonly #failures: { readonly failure: FailureAtPages; readonly what: string }[] = [];
  readonly #ends = new Map<string, string>();

  override fault(name: string, what: string, at = Date.now()): void {
    const text = `${name}: ${what}`;
    // A follower may try in vain several times.
    if (!this.found.some((fault) => fault.what === text)) this.found.push({ at, what: text });
  }

  happened(kind: Happening['kind'], whom: Happening['whom']): Happening {
    const happening = { kind, whom, from: Date.now(), to: Number.POSITIVE_INFINITY };
    this.happenings.push(happening);
    return happening;
  }

  // --- sessions

  /** @param former the one that the client had before, of which it may be told nothing if it was at rest. */
  join(page: Page, former?: Page): void {
    if (this.#pages.has(page.name)) return;
    if (former !== undefined) this.#followedAt.set(former.name, Date.now());
    this.#pages.set(page.name, { ...page, at: Date.now() });
    this.opened(page.name, page.session);
  }

  /** The session of a page has ended, or another one has taken its place. */
  sessionEnded(page: Page, code: string, why: string, to = Date.now()): void {
    const { name, session } = page;
    this.lostSession(name, why);
    this.#over.add(name);
    this.#ends.set(session, code);
    const at = this.#pages.get(name)?.at ?? 0;
    if (code === 'taken_over') this.happenings.push({ kind: 'replaced', whom: page.agent, from: at, to });
    this.#fail('session', page, code, at, `the session ${session} ended (${why})`, to);
  }

  /** The page is gone, and what it had not heard goes to the next page, if at all. */
  pageLeft({ name }: Page): void {
    this.user(name).lost ??= 'its page was loaded again';
  }

  // --- messages to the server

  /** @param text as the node has sent it: the page, the number and the count. */
  echo(text: string): void {
    const [name = '', number, count] = text.split(' ');
    const user = this.#pages.has(name) ? this.user(name) : undefined;
    if (user === undefined) return this.fault('server', `answered a question that was not asked: ${text}`);
    // A message that was not sent when the session ended goes to the next one, and those before it may be lost with the former.
    if (this.#isOver(name) && (Number(number) > user.heard || count === '1')) {
      user.heard = Math.max(user.heard, Number(number));
      this.#before.delete(name);
    }
    const before = this.#before.get(name) ?? Number(count) - user.heard - 1;
    this.#before.set(name, before);
    super.hear(name, `${number} ${Number(count) - before}`);
  }

  /** Whether its session has ended, although the page may not know. */
  #isOver(name: string): boolean {
    return this.#over.has(name) || this.#followedAt.has(name);
  }

  sendFailed(page: Page, what: string, code: string, at: number): void {
    this.#fail('send', page, code, at, what);
  }

  // --- messages between agents

  reported(by: Page, report: Undelivered): void {
    this.told.reported(by, report);
    const { to, code, first = 1, count, outcome } = report;
    const at = this.#pages.get(by.name)?.at ?? 0;
    this.#fail('report', by, code, at, `${count} messages to ${to} from ${first} on are ${outcome}`);
  }

  // --- replies

  asks(page: Page, question: Question, to: string | undefined): void {
    const at = Date.now();
    this.#asks.set(question.id, { question, to, page, at, endedAt: undefined, texts: [], keptId: undefined });
    this.asked.set(question.id, {
      user: this.user(page.name),
      parts: question.parts,
      got: 0,
      isLeft: false,
      isOver: false,
      failure: undefined,
    });
  }

  override part(id: string, text: string): void {
    super.part(id, String(numberOf(id, text)));
    this.#askOf(id).texts.push(text);
  }

  override ended(id: string): void {
    super.ended(id);
    this.#askOf(id).endedAt = Date.now();
  }

  override failed(id: string, code: string): void {
    super.failed(id, code);
    this.#askOf(id).endedAt = Date.now();
  }

  kept(id: string, keptId: string): void {
    const asked = this.#askOf(id);
    if (asked.keptId !== undefined && asked.keptId !== keptId)
      this.fault(asked.page.agent, `${id} is kept as ${keptId}, and was as ${asked.keptId}`);
    asked.keptId = keptId;
  }

  /** The ID and the parts so far of a reply that is kept; `undefined` until its requester knows. */
  keptReply(id: string): { readonly keptId: string; readonly got: number } | undefined {
    const asked = this.#asks.get(id);
    return asked?.keptId === undefined ? undefined : { keptId: asked.keptId, got: asked.texts.length };
  }

  isOver(id: string): boolean {
    return this.#asks.get(id)?.endedAt !== undefined;
  }

  follows(who: string, question: string, from: number): Follower {
    const follower = { who, isDurable: isDurable(who), question, from, at: Date.now(), texts: [] };
    this.#followers.push(follower);
    return follower;
  }

  followed({ who, question, from, texts }: Follower, text: string, position: number): void {
    const number = numberOf(question, text);
    const expected = from + texts.length;
    if (number !== expected)
      this.fault(who, `follows ${question} from ${from}, and read part ${number} and not ${expected}`);
    texts.push(text);
    if (position !== expected + 1)
      this.fault(who, `is at position ${position} of ${question} after part ${expected}`);
  }

  /** @param isFinal it is not tried again. */
  followFailed(follower: Follower, session: string, code: string, isFinal: boolean): void {
    const { who, question, from, at, texts } = follower;
    const asked = this.#askOf(question);
    const what = `following ${question} ended after ${texts.length} parts from ${from} on`;
    const of = isFinal ? 'followed' : 'following';
    // The reply may end if nothing is tried again, and before that the session of its reader.
    const isAgain = this.#isAgain(asked);
    const by = isFinal ? isDurable(asked.page.agent) : follower.isDurable;
    this.#failures.push({
      failure: {
        ...{ of, code, who, session, question, isAgain, isDurable: by },
        ...{ from: at, to: Date.now(), askedAt: asked.at },
      },
      what,
    });
  }

  followEnded({ who, question, from, texts }: Follower): void {
    this.counts.followed++;
    const { parts } = this.#askOf(question).question;
    if (from + texts.length !== parts)
      this.fault(who, `${question} was complete after ${texts.length} parts from ${from} on, of ${parts}`);
  }

  /** A handler of an agent was told to stop. */
  handlerStopped({ agent, session }: Page, question: string, code: string, from: number): void {
    this.#fail('handler', { agent, session }, code, from, `the handler of ${question} was stopped`);
  }

  /** Whether something that was said has not come back. */
  get isWaiting(): boolean {
    const isDue = (name: string) => !this.isQuiet(name) && !this.#followedAt.has(name);
    return [...this.users.keys()].some(isDue) || this.#missing().length > 0;
  }

  #missing(): ReturnType<Told['missing']> {
    return this.told.missing([...this.#pages.values()], (session) => this.#ends.has(session));
  }

  // --- the end

  #fail(
    of: Failure['of'],
    { agent, session }: Pick<Page, 'agent' | 'session'>,
    code: string,
    from: number,
    what: string,
    to = Date.now(),
  ): void {
    const failure = { of, code, who: agent, session, from, to, question: undefined };
    this.#failures.push({ failure: { ...failure, isDurable: isDurable(agent), isAgain: false }, what });
  }

  /** Judges everything, after all users have stopped. The first fault is the first in the result. */
  judge(effects: readonly DatedEffect[]): readonly Fault[] {
    for (const [name, at] of this.#followedAt) {
      const page = this.#pages.get(name);
      if (page !== undefined && !this.#ends.has(page.session))
        this.sessionEnded(page, 'session_lost', 'another one followed it without a word', at);
    }
    this.happenings.push(...sufferedBy(effects));
    const places = new Places(effects, (id) => this.#asks.get(id)?.keptId);
    for (const { at, pid, effect } of effects) this.#judgeEffect(at, pid, effect, places);
    for (const [id, asked] of this.#asks) this.#judgeReply(id, asked, places);
    for (const { failure, what } of this.#failures) this.#judgeFailure(places.of(failure), what);
    for (const follower of this.#followers) this.#comparePrefix(follower);
    for (const { by, to, between, numbers } of this.#missing())
      this.fault(
        by,
        `told ${to} what it has not read, and was told nothing of: ${numbers.join(', ')} (${between.join(' to ')})`,
      );
    for (const [name, { said, heard, lost }] of this.users)
      if (lost === undefined && heard !== said)
        this.fault(name, `lost: ${heard} of ${said} messages to the server came back`);
    const { expected, complete } = this.counts;
    if (expected === 0 || complete / expected < MIN_COMPLETE)
      this.fault('replies', `only ${complete} of ${expected} that nothing may end are complete`);
    return this.found.sort((one, other) => one.at - other.at);
  }

  #judgeEffect(at: number, pid: number, effect: DatedEffect['effect'], places: Places): void {
    if (effect[0] === 'fault') this.fault(`process ${pid}`, effect[1], at);
    const [kind, subject] = effect;
    if (kind !== 'stopped' && kind !== 'ended') return;
    // Of a question, or of a session.
    const asked = this.#asks.get(subject);
    const page = asked?.page ?? [...this.#pages.values()].find(({ session }) => session === subject);
    const [agent, session] = [page?.agent ?? 'a device', page?.session ?? subject];
    const failure = places.of({
      ...{ of: 'handler', code: effect[2], who: agent, session, question: asked?.question.id },
      ...{
        from: asked?.at ?? at,
        to: at,
        isDurable: isDurable(agent),
        isAgain: asked !== undefined && this.#isAgain(asked),
      },
    });
    const what = kind === 'stopped' ? `the handler of ${subject}` : `onSession of ${agent} (${session})`;
    this.#judgeFailure({ ...failure, handlers: [pid] }, `${what} was stopped`);
  }

  #judgeFailure(failure: Failure, what: string): void {
    if (rowFor(failure, this.happenings) !== undefined) this.counts.allowed++;
    else
      this.fault(
        failure.who,
        `${what} with ${failure.code}, which nothing that happened allows (${this.#placeOf(failure)})`,
        failure.to,
      );
  }

  #placeOf({ session, question = '', handlers, isUnkept }: Failure): string {
    const keptId = this.#asks.get(question)?.keptId;
    const kept = keptId === undefined ? '' : `, ${isUnkept ? 'no longer ' : ''}kept as ${keptId}`;
    return `${session}, handlers in ${handlers.join(', ') || 'none'}${kept}`;
  }

  #judgeReply(id: string, asked: Asked, places: Places): void {
    const { to, page, at, endedAt } = asked;
    const { isLeft, failure, got, parts } = this.question(id);
    const progress = `after ${got} of ${parts} parts`;
    if (isLeft) return;
    if (endedAt === undefined) this.fault(page.agent, `${id} is stuck ${progress}`, at);
    const call = places.of({
      ...{
        of: to === undefined ? 'request' : 'relayed',
        who: page.agent,
        from: at,
        to: endedAt ?? Date.now(),
      },
      ...{ question: id, code: failure ?? '', session: page.session, isDurable: isDurable(page.agent) },
      isAgain: this.#isAgain(asked),
    });
    if (failure !== undefined) this.#judgeFailure(call, `${id} ended ${progress}`);
    if (mayEnd(call, this.happenings)) return;
    this.counts.expected++;
    if (endedAt !== undefined && failure === undefined) this.counts.complete++;
  }

  /** Checks that a follower has read the same parts as the requester, as far as both have come. */
  #comparePrefix({ who, question, from, texts, at }: Follower): void {
    const {
      texts: all,
      question: { parts },
    } = this.#askOf(question);
    const { isLeft, failure, isOver } = this.question(question);
    const index = texts.findIndex((text, i) => all[from + i] !== undefined && all[from + i] !== text);
    if (index >= 0)
      this.fault(
        who,
        `read ${JSON.stringify(texts[index])} of ${question} as part ${from + index}, and its requester ${JSON.stringify(all[from + index])}`,
        at,
      );
    const isWhole = isOver && failure === undefined && !isLeft;
    if (from + texts.length > (isWhole ? all.length : parts))
      this.fault(who, `read ${from + texts.length} parts of ${question}, which has fewer`, at);
  }

  /** Its handler is called again, which is recorded with its first part, for as long as a session waits for it. */
  #isAgain({ question: { id, again }, page, texts }: Asked): boolean {
    return again && isDurable(page.agent) && texts.length > 0 && !this.question(id).isLeft;
  }

  #askOf(id: string): Asked {
    return this.#asks.get(id) as Asked;
  }
}

/** How long a node has waited for the engine, at most, when it says so; in milliseconds. */
const WAITED_MS = 7_000;

/**
 * Events of nodes by themselves, by their own account: on a machine with other work, an engine that is well may answer
 * too late.
 */
function sufferedBy(effects: readonly DatedEffect[]): Happening[] {
  const happenings: Happening[] = [];
  const stalled = new Map<number, Happening>();
  for (const { at, pid, effect } of effects) {
    const [kind] = effect;
    if (kind === 'stalled' && !stalled.has(pid)) {
      const happening: Happening = { kind: 'engine', from: at - WAITED_MS, to: at, whom: pid };
      stalled.set(pid, happening);
      happenings.push(happening);
    }
    const last = stalled.get(pid);
    if (last !== undefined) last.to = at;
    if (kind === 'answered') stalled.delete(pid);
    if (kind === 'cut off') happenings.push({ kind: 'parted', from: at - WAITED_MS, to: at, whom: pid });
  }
  return happenings;
}

const isDurable = (agent: string): boolean => !PLAIN_AGENTS.includes(agent);
