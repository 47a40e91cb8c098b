import {
  type HelloPayload,
  type Logger,
  type Message,
  ProtocolError,
  type RequestHandler,
} from '@parlance/protocol';
import { ask, type EventRoute, type Fields, loggable, notify } from '@parlance/protocol/internal';
import type { CheckedIdentity } from '../../session/admission/admission.js';
import type { LookupQuery, LookupResult } from '../../session/admission/lookup.js';
import type { Origin } from '../../session/admission/renewal.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { Admission, FeatureEndpoint, LeavingHooks, SessionHooks } from '../../session/hooks.js';
import { type ServedSession, sessionClass } from '../../session/served-session.js';
import type { Refusal } from '../../transport/http/site.js';
import type { HttpHandler, Page, PagePort } from '../../transport/http/status.js';
import type { UpgradeTarget } from '../../transport/http/upgrade.js';
import { FOREIGN_OF_SESSIONS } from '../foreign-names.js';
import type { DrainHooks, Feature, Figure, Labels, Service } from './feature.js';
import { guardedHttp, guardedUpgrade } from './guarded.js';
import { NamesRoute } from './names-route.js';
import { comesAfter, inOrder, type Ordered } from './order.js';
import type { CoreOptions, Offer, OwnHooks, OwnHost } from './own-feature.js';
import { SlotOfSessions } from './slot.js';

type Named = OwnHooks & Ordered;
type Having<Hook extends keyof OwnHooks> = Named & {
  readonly [Name in Hook]-?: NonNullable<OwnHooks[Name]>;
};

/** The part of their host that features get from the server itself. */
export type ServerOfFeatures = Omit<
  OwnHost,
  'slot' | 'provide' | 'use' | 'order' | 'figures' | 'labels' | 'changed'
>;

/** The hooks of all features of a server, in one list for each hook. A hook that no feature has costs nothing. */
export class InstalledFeatures implements SessionHooks, LeavingHooks {
  readonly core: CoreOptions;
  readonly endpoint: FeatureEndpoint;
  readonly offer: Offer;
  readonly Session: typeof ServedSession;
  readonly figures: readonly Figure[];
  readonly labels: Labels;
  readonly drains: readonly DrainHooks[];
  /** By name, for those that features serve. */
  readonly extensions: Readonly<Record<string, boolean>>;
  /** `undefined` if no feature wants to know. */
  readonly onHandled: ((session: ServerEndpoint, message: Message) => void) | undefined;
  readonly #all: readonly Named[];
  readonly #services = new Map<Service<unknown>, unknown>();
  readonly #logger: Logger;
  readonly #routes;
  readonly #lists = new Map<keyof OwnHooks, readonly Named[]>();
  readonly #started = new Set<Named>();
  #isClosed = false;
  #slots = 0;

  /** @throws {ProtocolError} `invalid_option`, and what a feature throws that cannot be installed. */
  constructor(
    features: readonly Feature[],
    server: ServerOfFeatures,
    logger: Logger,
    given: readonly (readonly [Service<unknown>, unknown])[] = [],
  ) {
    this.#logger = logger;
    for (const [service, value] of given) this.#services.set(service, value);
    const own: Omit<OwnHost, keyof ServerOfFeatures | 'changed'> = {
      slot: (create) => new SlotOfSessions(this.#slots++, create, () => this.#slots),
      provide: (service, value) => void this.#services.set(service, value),
      use: (service) => this.use(service),
      order: () => this.order,
      figures: () => this.figures,
      labels: () => this.labels,
    };
    // The getters of the server stay getters.
    const host = Object.defineProperties({} as Omit<OwnHost, 'changed'>, {
      ...Object.getOwnPropertyDescriptors(server),
      ...Object.getOwnPropertyDescriptors(own),
    });
    const hostOf = (name: string): OwnHost =>
      Object.assign(Object.create(host), {
        changed: (session: ServerEndpoint) => this.#record(session, name),
      });
    // A feature may be an object of a class, whose hooks are not members of its own.
    this.#all = inOrder(features).map((feature) => {
      const { name, provides, after } = feature;
      return Object.assign(feature.install(hostOf(name)) as OwnHooks, { name, provides, after });
    });
    this.core = this.#merged('core');
    this.endpoint = this.#merged('endpoint');
    this.offer = this.#merged('offer');
    this.Session = sessionClass(
      this.#all.filter(({ verbs, events }) => verbs !== undefined || events !== undefined),
      FOREIGN_OF_SESSIONS,
    );
    this.labels = this.#merged('labels');
    this.figures = this.#having('figures').flatMap(({ figures }) => figures);
    const extensions = this.#having('extensions').flatMap((feature) => feature.extensions);
    this.extensions = Object.fromEntries(extensions.map((name) => [name, true]));
    this.drains = this.#having('drain').map(({ drain }) => drain);
    const hasRoute = ({ names, route }: OwnHooks) => names !== undefined || route !== undefined;
    const handled = this.#having('handled');
    if (handled.length > 0)
      this.onHandled = (session, message) =>
        each(session, handled, (feature) => feature.handled(session, message));
    this.#routes = this.#all.filter(hasRoute).reverse();
  }

  /** The features, in the order in which they were installed. */
  get order(): readonly string[] {
    return this.#all.map(({ name }) => name);
  }

  /** The features that have a hook, looked for once. */
  #having<Hook extends keyof OwnHooks>(hook: Hook): readonly Having<Hook>[] {
    let having = this.#lists.get(hook);
    if (having === undefined) {
      having = this.#all.filter((feature) => feature[hook] !== undefined);
      this.#lists.set(hook, having);
    }
    return having as readonly Having<Hook>[];
  }

  #merged<Values extends 'core' | 'endpoint' | 'offer' | 'labels'>(
    kind: Values,
  ): NonNullable<OwnHooks[Values]> {
    const all: Record<string, unknown> = {};
    for (const { name, [kind]: values } of this.#having(kind))
      for (const [key, value] of Object.entries(values)) {
        if (key in all) throw new ProtocolError('invalid_option', `${name}: another feature sets ${key}`);
        all[key] = value;
      }
    return all as NonNullable<OwnHooks[Values]>;
  }

  /** The value that a feature has provided. */
  use<Value>(service: Service<Value>): Value | undefined {
    return this.#services.get(service) as Value | undefined;
  }

  wrap(handler: RequestHandler): RequestHandler {
    return this.#having('wrap').reduceRight((next, feature) => feature.wrap(next), handler);
  }

  /** The route of events of a session that are not for the application. */
  routeOf(session: ServerEndpoint): EventRoute | undefined {
    let route: EventRoute | undefined;
    for (const feature of this.#routes) {
      if (feature.names !== undefined) route = NamesRoute.around(session, feature.names, route);
      if (feature.route !== undefined) route = feature.route(session, route);
    }
    return route;
  }

  // --- a new session. An error of a feature ends the handshake.

  refuses(): Refusal | undefined {
    return first(this.#having('refuses'), (feature) => feature.refuses('session'));
  }

  /** `undefined` if no feature looks for it. Never rejects. */
  lookup(wanted: LookupQuery): Promise<LookupResult> | undefined {
    return first(this.#having('lookup'), (feature) => feature.lookup(wanted));
  }

  begins(key: string, sessionId: string, over: string | undefined): Promise<string> | undefined {
    return first(this.#having('begins'), (feature) => feature.begins(key, sessionId, over));
  }

  /** The refusal of the first feature that has one. */
  admit(hello: HelloPayload, identity: CheckedIdentity, origin: Origin): Required<Admission> | Refusal {
    const admissions: Admission[] = [];
    for (const feature of this.#having('admit')) {
      const answer = feature.admit(hello, identity, origin);
      if (answer !== undefined && 'code' in answer) return answer;
      if (answer !== undefined) admissions.push(answer);
    }
    // The first commit records the notes of other features about the session, so the durable one comes last.
    admissions.sort((a, b) => Number(a.isDurable ?? false) - Number(b.isDurable ?? false));
    return {
      isDurable: admissions.some(({ isDurable }) => isDurable),
      accepted: (session) => each(session, admissions, (admission) => admission.accepted?.(session)),
    };
  }

  ready(session: ServerEndpoint): void {
    each(session, this.#having('ready'), (feature) => feature.ready(session));
  }

  resumed(session: ServerEndpoint): void {
    each(session, this.#having('resumed'), (feature) => feature.resumed(session));
  }

  ended(session: ServerEndpoint, error: ProtocolError | undefined): void {
    each(session, this.#having('ended'), (feature) => feature.ended(session, error));
  }

  // --- sessions that leave

  hold(session: ServerEndpoint): void {
    each(session, this.#having('others'), ({ others }) => others.hold(session));
  }

  isQuiet(session: ServerEndpoint): boolean {
    return this.#having('others').every(({ others }) => isSaid(session, () => others.isQuiet(session)));
  }

  leaves(session: ServerEndpoint, stream: number, how: 'move' | 'record'): boolean {
    return this.#having('leaves').some((feature) =>
      isSaid(session, () => feature.leaves(session, stream, how)),
    );
  }

  settle(session: ServerEndpoint, reason: ProtocolError): void {
    each(session, this.#having('others'), ({ others }) => others.settle(session, reason));
  }

  moved(session: ServerEndpoint, node: string | undefined): void {
    each(session, this.#having('moved'), (feature) => feature.moved(session, node));
  }

  release(session: ServerEndpoint): void {
    each(session, this.#having('release'), (feature) => feature.release(session));
  }

  /** By the names of features. Throws what one of them throws. */
  save(session: ServerEndpoint): Readonly<Record<string, unknown>> {
    const all: Record<string, unknown> = {};
    for (const feature of this.#having('save')) {
      const saved = feature.save(session, 'move');
      if (saved !== undefined) all[feature.name] = saved;
    }
    return all;
  }

  /** Records the state that features save of a session, or that one of them saves. */
  record(session: ServerEndpoint): void {
    for (const { name } of this.#having('save')) this.#record(session, name);
  }

  #record(session: ServerEndpoint, name: string): void {
    const feature = this.#having('save').find((each) => each.name === name);
    if (feature === undefined || !session.isDurable || session.hasEnded) return;
    const fail = (error: unknown) => {
      if (error instanceof ProtocolError && error.code === 'over_budget') session.abort(error);
      else session.crash(error);
    };
    notify(() => session.record?.save(name, feature.save(session, 'record')), fail);
  }

  /** @throws {ProtocolError} `bad_message`, also for what no feature here has saved: it must not be lost in silence. */
  load(saved: Fields): (session: ServerEndpoint, from: string | undefined) => void {
    const loading = this.#having('load');
    const begins = Object.entries(saved).map(([name, value]) => {
      const feature = loading.find((each) => each.name === name);
      if (feature !== undefined) return feature.load(value);
      throw new ProtocolError(
        'bad_message',
        `the session has a state of ${name}, which this node does not have`,
      );
    });
    return (session, from) => each(session, begins, (begin) => begin(session, from));
  }

  // --- the whole server

  /** The page or the handler at a path, of the first feature that has one. */
  httpAt(path: string, port: PagePort): Page | HttpHandler | undefined {
    return first(this.#having('http'), (feature) => {
      const fail = (error: unknown) => this.#report(feature, error);
      return guardedHttp(() => feature.http(path, port), fail);
    });
  }

  /** The target of WebSockets at a path, of the first feature that has one. */
  upgradeAt(path: string): UpgradeTarget | 'failed' | undefined {
    return first(this.#having('upgrade'), (feature) => {
      const fail = (error: unknown) => this.#report(feature, error);
      return guardedUpgrade(() => feature.upgrade(path), fail);
    });
  }

  /** Why a balancer should send no clients here; `undefined` if it may. */
  unready(): string | undefined {
    const failed = (name: string) => `the feature ${name} has failed`;
    return first(this.#having('refuses'), (feature) =>
      this.#ask(feature, () => feature.refuses('balancer')?.message, failed(feature.name)),
    );
  }

  /** Another server takes sessions and clients from this one, which drains. */
  get isElsewhere(): boolean {
    return this.drains.some(({ isElsewhere }) => isElsewhere);
  }

  /**
   * Starts each feature when those that it comes after have started, and not again if it is called again.
   *
   * @throws what prevents a feature from starting.
   */
  async start(): Promise<void> {
    const starting = new Map<string, Promise<void>>();
    for (const feature of this.#all) {
      const before = this.#all
        .filter((other) => comesAfter(feature, other))
        .map(({ name }) => starting.get(name));
      starting.set(feature.name, this.#start(feature, before));
    }
    await Promise.all(starting.values());
  }

  async #start(feature: Named, before: readonly (Promise<void> | undefined)[]): Promise<void> {
    await Promise.all(before);
    if (this.#isClosed || this.#started.has(feature)) return;
    await feature.start?.();
    this.#started.add(feature);
  }

  tick(): void {
    for (const feature of this.#having('tick')) this.#ask(feature, () => feature.tick(), undefined);
  }

  /** Never rejects. */
  async leave(): Promise<void> {
    for (const feature of this.#having('leave')) await this.#attempt(feature, () => feature.leave());
  }

  /** Never rejects: a feature that fails does not keep the others from closing. */
  async close(reason: ProtocolError): Promise<void> {
    this.#isClosed = true;
    for (const feature of this.#having('close').toReversed())
      await this.#attempt(feature, () => feature.close(reason));
  }

  async #attempt(feature: Named, task: () => Promise<void> | void): Promise<void> {
    try {
      await task();
    } catch (error) {
      this.#report(feature, error);
    }
  }

  /** @param otherwise if the feature fails, which is logged. */
  #ask<Answer>(feature: Named, call: () => Answer, otherwise: Answer): Answer {
    const fail = (error: unknown) => {
      this.#report(feature, error);
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
  features: readonly Item[],
  ask: (feature: Item) => Answer | undefined,
): Answer | undefined {
  for (const feature of features) {
    const answer = ask(feature);
    if (answer !== undefined) return answer;
  }
  return undefined;
}

/** Calls all of them; a fault in one ends the session, and keeps none of the others from it. */
function each<Item>(session: ServerEndpoint, features: readonly Item[], call: (feature: Item) => void): void {
  const crash = (error: unknown) => session.crash(error);
  for (const feature of features) notify(() => call(feature), crash);
}

/** Whether a feature says so. A fault in it ends the session, and says no. */
function isSaid(session: ServerEndpoint, call: () => boolean): boolean {
  const crash = (error: unknown) => void session.crash(error);
  return ask(call, (given) => given === true, crash) === true;
}
