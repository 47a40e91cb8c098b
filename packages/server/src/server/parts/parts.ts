import {
  type HelloPayload,
  type Logger,
  type Message,
  ProtocolError,
  type RequestHandler,
  type ResumeOffer,
} from '@parlance/protocol';
import { ask, type EventRoute, type Fields, loggable, notify } from '@parlance/protocol/internal';
import type { CheckedIdentity } from '../../session/admission/admission.js';
import type { Origin } from '../../session/admission/renewal.js';
import type { Sought, Wanted } from '../../session/admission/seek.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { LeavingParts, PartEndpoint, SessionParts } from '../../session/parts.js';
import type { Refusal } from '../../transport/http/site.js';
import type { Page, PagePort } from '../../transport/http/status.js';
import { NamesRoute } from './names-route.js';
import { comesAfter, inOrder, type Ordered } from './order.js';
import type { CoreOptions, DrainPart, Feature, Figure, Labels, Offer, Part, PartHost, Port } from './part.js';
import { Slot } from './slot.js';

type Named = Part & Ordered;
type Having<Hook extends keyof Part> = Named & { readonly [Name in Hook]-?: NonNullable<Part[Name]> };

/** What a server gives its parts itself. */
export type ServerOfParts = Omit<PartHost, 'slot' | 'provide' | 'use' | 'figures' | 'labels' | 'changed'>;

/** What the parts of a server do together, in one list for each hook: a hook that no part has costs nothing. */
export class Parts implements SessionParts, LeavingParts {
  readonly core: CoreOptions;
  readonly endpoint: PartEndpoint;
  readonly offer: Offer;
  readonly figures: readonly Figure[];
  readonly labels: Labels;
  readonly drains: readonly DrainPart[];
  /** By name, for those that parts serve. */
  readonly extensions: Readonly<Record<string, boolean>>;
  /** `undefined` if no part wants to know. */
  readonly onHandled: ((session: ServerEndpoint, message: Message) => void) | undefined;
  readonly #all: readonly Named[];
  readonly #ports = new Map<Port<unknown>, unknown>();
  readonly #logger: Logger;
  readonly #routes;
  readonly #lists = new Map<keyof Part, readonly Named[]>();
  readonly #started = new Set<Named>();
  #isClosed = false;
  #slots = 0;

  /** @throws {ProtocolError} `invalid_option`, and what a feature throws that cannot be installed. */
  constructor(
    features: readonly Feature[],
    server: ServerOfParts,
    logger: Logger,
    given: readonly (readonly [Port<unknown>, unknown])[] = [],
  ) {
    this.#logger = logger;
    for (const [port, value] of given) this.#ports.set(port, value);
    const own: Omit<PartHost, keyof ServerOfParts | 'changed'> = {
      slot: (create) => new Slot(this.#slots++, create, () => this.#slots),
      provide: (port, value) => void this.#ports.set(port, value),
      use: (port) => this.use(port),
      figures: () => this.figures,
      labels: () => this.labels,
    };
    // The getters of the server stay getters.
    const host = Object.defineProperties({} as Omit<PartHost, 'changed'>, {
      ...Object.getOwnPropertyDescriptors(server),
      ...Object.getOwnPropertyDescriptors(own),
    });
    const hostOf = (name: string): PartHost =>
      Object.assign(Object.create(host), {
        changed: (session: ServerEndpoint) => this.#record(session, name),
      });
    // A part may be an object of a class, whose hooks are not members of its own.
    this.#all = inOrder(features).map((feature) => {
      const { name, provides, after } = feature;
      return Object.assign(feature.install(hostOf(name)), { name, provides, after });
    });
    this.core = this.#merged('core');
    this.endpoint = this.#merged('endpoint');
    this.offer = this.#merged('offer');
    this.labels = this.#merged('labels');
    this.figures = this.#having('figures').flatMap(({ figures }) => figures);
    const extensions = this.#having('extensions').flatMap((part) => part.extensions);
    this.extensions = Object.fromEntries(extensions.map((name) => [name, true]));
    this.drains = this.#having('drain').map(({ drain }) => drain);
    const hasRoute = ({ names, route }: Part) => names !== undefined || route !== undefined;
    const handled = this.#having('handled');
    if (handled.length > 0)
      this.onHandled = (session, message) => each(session, handled, (part) => part.handled(session, message));
    this.#routes = this.#all.filter(hasRoute).reverse();
  }

  /** The features, in the order in which they were installed. */
  get order(): readonly string[] {
    return this.#all.map(({ name }) => name);
  }

  /** The parts that have a hook, looked for once. */
  #having<Hook extends keyof Part>(hook: Hook): readonly Having<Hook>[] {
    let having = this.#lists.get(hook);
    if (having === undefined) {
      having = this.#all.filter((part) => part[hook] !== undefined);
      this.#lists.set(hook, having);
    }
    return having as readonly Having<Hook>[];
  }

  #merged<Values extends 'core' | 'endpoint' | 'offer' | 'labels'>(kind: Values): NonNullable<Part[Values]> {
    const all: Record<string, unknown> = {};
    for (const { name, [kind]: values } of this.#having(kind))
      for (const [key, value] of Object.entries(values)) {
        if (key in all) throw new ProtocolError('invalid_option', `${name}: another feature sets ${key}`);
        all[key] = value;
      }
    return all as NonNullable<Part[Values]>;
  }

  /** What a part has provided. */
  use<Value>(port: Port<Value>): Value | undefined {
    return this.#ports.get(port) as Value | undefined;
  }

  wrap(handler: RequestHandler): RequestHandler {
    return this.#having('wrap').reduceRight((next, part) => part.wrap(next), handler);
  }

  /** Where events of a session go that are not for the application. */
  routeOf(session: ServerEndpoint): EventRoute | undefined {
    let route: EventRoute | undefined;
    for (const part of this.#routes) {
      if (part.names !== undefined) route = NamesRoute.around(session, part.names, route);
      if (part.route !== undefined) route = part.route(session, route);
    }
    return route;
  }

  // --- a new session. What a part throws ends the handshake.

  refuses(): Refusal | undefined {
    return first(this.#having('refuses'), (part) => part.refuses());
  }

  /** `undefined` if no part looks for it. Never rejects. */
  seek(wanted: Wanted): Promise<Sought> | undefined {
    return first(this.#having('seek'), (part) => part.seek(wanted));
  }

  records(hello: HelloPayload, identity: CheckedIdentity, origin: Origin): boolean | Refusal {
    return first(this.#having('records'), (part) => part.records(hello, identity, origin)) ?? false;
  }

  claim(session: ServerEndpoint, hello: HelloPayload): Refusal | undefined {
    return first(this.#having('claim'), (part) => part.claim(session, hello));
  }

  accepted(session: ServerEndpoint, resume: ResumeOffer | undefined): void {
    each(session, this.#having('accepted'), (part) => part.accepted(session, resume));
  }

  ready(session: ServerEndpoint): void {
    each(session, this.#having('ready'), (part) => part.ready(session));
  }

  resumed(session: ServerEndpoint): void {
    each(session, this.#having('resumed'), (part) => part.resumed(session));
  }

  ended(session: ServerEndpoint, error: ProtocolError | undefined): void {
    each(session, this.#having('ended'), (part) => part.ended(session, error));
  }

  // --- sessions that leave

  hold(session: ServerEndpoint): void {
    each(session, this.#having('hold'), (part) => part.hold(session));
  }

  isQuiet(session: ServerEndpoint): boolean {
    return this.#having('quiet').every((part) => isSaid(session, () => part.quiet(session)));
  }

  leaves(session: ServerEndpoint, stream: number, how: 'move' | 'record'): boolean {
    return this.#having('leaves').some((part) => isSaid(session, () => part.leaves(session, stream, how)));
  }

  settle(session: ServerEndpoint, reason: ProtocolError): void {
    each(session, this.#having('settle'), (part) => part.settle(session, reason));
  }

  moved(session: ServerEndpoint, node: string | undefined): void {
    each(session, this.#having('moved'), (part) => part.moved(session, node));
  }

  release(session: ServerEndpoint): void {
    each(session, this.#having('release'), (part) => part.release(session));
  }

  /** By the names of parts. Throws what one of them throws. */
  save(session: ServerEndpoint): Readonly<Record<string, unknown>> {
    const all: Record<string, unknown> = {};
    for (const part of this.#having('save')) {
      const saved = part.save(session, 'move');
      if (saved !== undefined) all[part.name] = saved;
    }
    return all;
  }

  /** Puts on record what parts save of a session, or what one of them does. */
  record(session: ServerEndpoint): void {
    for (const { name } of this.#having('save')) this.#record(session, name);
  }

  #record(session: ServerEndpoint, name: string): void {
    const part = this.#having('save').find((each) => each.name === name);
    if (part === undefined || !session.isDurable || session.hasEnded) return;
    const fail = (error: unknown) => {
      if (error instanceof ProtocolError && error.code === 'over_budget') session.abort(error);
      else session.crash(error);
    };
    notify(() => session.record?.save(name, part.save(session, 'record')), fail);
  }

  /** @throws {ProtocolError} `bad_message`, also for what no part here has saved: it must not be lost in silence. */
  load(saved: Fields): (session: ServerEndpoint, from: string | undefined) => void {
    const loading = this.#having('load');
    const begins = Object.entries(saved).map(([name, value]) => {
      const part = loading.find((each) => each.name === name);
      if (part !== undefined) return part.load(value);
      throw new ProtocolError(
        'bad_message',
        `the session has a state of ${name}, which this node does not have`,
      );
    });
    return (session, from) => each(session, begins, (begin) => begin(session, from));
  }

  // --- the whole server

  pageAt(path: string, port: PagePort): Page | undefined {
    return first(this.#having('page'), (part) => this.#ask(part, () => part.page(path, port), undefined));
  }

  /** Why a balancer should send no clients here; `undefined` if it may. */
  unready(): string | undefined {
    const failed = (name: string) => `the part ${name} has failed`;
    return (
      first(this.#having('unready'), (part) => this.#ask(part, () => part.unready(), failed(part.name))) ??
      first(this.#having('refuses'), (part) =>
        this.#ask(part, () => part.refuses()?.message, failed(part.name)),
      )
    );
  }

  /** Another server takes sessions and clients from this one, which drains. */
  get isElsewhere(): boolean {
    return this.drains.some(({ isElsewhere }) => isElsewhere);
  }

  /**
   * Starts each part when those that it comes after have started, and not again if it is called again.
   *
   * @throws what prevents a part from starting.
   */
  async start(): Promise<void> {
    const starting = new Map<string, Promise<void>>();
    for (const part of this.#all) {
      const before = this.#all
        .filter((other) => comesAfter(part, other))
        .map(({ name }) => starting.get(name));
      starting.set(part.name, this.#start(part, before));
    }
    await Promise.all(starting.values());
  }

  async #start(part: Named, before: readonly (Promise<void> | undefined)[]): Promise<void> {
    await Promise.all(before);
    if (this.#isClosed || this.#started.has(part)) return;
    await part.start?.();
    this.#started.add(part);
  }

  tick(): void {
    for (const part of this.#having('tick')) this.#ask(part, () => part.tick(), undefined);
  }

  /** Never rejects. */
  async leave(): Promise<void> {
    for (const part of this.#having('leave')) await this.#attempt(part, () => part.leave());
  }

  /** Never rejects: a part that fails does not keep the others from closing. */
  async close(reason: ProtocolError): Promise<void> {
    this.#isClosed = true;
    for (const part of this.#having('close').toReversed())
      await this.#attempt(part, () => part.close(reason));
  }

  async #attempt(part: Named, task: () => Promise<void> | void): Promise<void> {
    try {
      await task();
    } catch (error) {
      this.#report(part, error);
    }
  }

  /** @param otherwise if the part fails, which is logged. */
  #ask<Answer>(part: Named, call: () => Answer, otherwise: Answer): Answer {
    const fail = (error: unknown) => {
      this.#report(part, error);
      return otherwise;
    };
    return ask(call, (given) => given as Answer, fail);
  }

  #report({ name }: Named, error: unknown): void {
    const fields = { event: 'part.failed', part: name, err: loggable(error) };
    this.#logger.error(fields, 'a feature of the server has failed');
  }
}

/** The first answer that there is. */
function first<Item, Answer>(
  parts: readonly Item[],
  ask: (part: Item) => Answer | undefined,
): Answer | undefined {
  for (const part of parts) {
    const answer = ask(part);
    if (answer !== undefined) return answer;
  }
  return undefined;
}

/** Calls all of them; a fault in one ends the session, and keeps none of the others from it. */
function each<Item>(session: ServerEndpoint, parts: readonly Item[], call: (part: Item) => void): void {
  const crash = (error: unknown) => session.crash(error);
  for (const part of parts) notify(() => call(part), crash);
}

/** Whether a part says so. A fault in it ends the session, and says no. */
function isSaid(session: ServerEndpoint, call: () => boolean): boolean {
  const crash = (error: unknown) => void session.crash(error);
  return ask(call, (given) => given === true, crash) === true;
}
