import { Algorithm, type EncodingName } from '../base/constants.js';
import type { StringMap } from '../base/fields.js';
import type { Timers } from '../base/limits.js';
import type { OptionKinds } from '../base/options.js';
import type { AvpOptions } from '../codec/avp/agreement.js';
import type { LaterCodec } from '../control/messages.js';
import type { TransferMode } from './tensors/receiver.js';

/** The capabilities that an end advertises to its peer: options of a client, and of a server by way of its features. */
export interface CapabilityOptions {
  /**
   * The codecs of this end, in order of preference.
   *
   * @default all six, M2M first. In a page: TOKEN, DICTIONARY and NONE, and TOKEN_NATIVE if it has an encoding
   */
  readonly algorithms?: readonly Algorithm[] | undefined;
  /**
   * The tokenizer encodings of this end, in order of preference.
   *
   * @default CL100K_BASE, O200K_BASE. In a page: those whose vocabulary is loaded
   */
  readonly encodings?: readonly EncodingName[] | undefined;
  /** Switches extensions on or off by their names on the wire, such as `context`. @default on, if this end can do it */
  readonly extensions?: Readonly<Record<string, boolean>> | undefined;
  /** Client: asks the server for the results of its scan. Server: on with `scan()`. @default false */
  readonly securityScanning?: boolean | undefined;
  /**
   * The model of this end. If both ends name theirs, `negotiated.avp` shows whether the model of the peer can
   * use tensors of this one, and `sendTensor` follows it. The directory of a server lists it.
   *
   * @default no model
   */
  readonly avp?: AvpOptions | undefined;
  /** Whether tensors are received as a whole or read while they arrive. @default 'assemble' */
  readonly transfers?: TransferMode | undefined;
}

/** The options of a client that its defaults depend on. */
export interface DefaultsOptions extends CapabilityOptions {
  readonly security?: object | undefined;
}

/** The kinds of {@link CapabilityOptions}. */
export const CAPABILITY_KINDS: OptionKinds<CapabilityOptions> = {
  algorithms: 'list',
  encodings: 'list',
  extensions: 'object',
  securityScanning: 'flag',
  avp: 'object',
  transfers: 'text',
};

/** All that an end advertises, also beside what follows from its options. */
export interface OfferOptions extends CapabilityOptions {
  /** Statements of extensions that do not follow from the other options, by their names. @default nothing */
  readonly statements?: StringMap | undefined;
  /** The ID that a client asks for. */
  readonly agentId?: string | undefined;
  /** Leaves only M2M, and the extensions that need no other codec. @default none */
  readonly security?: object | undefined;
  /** One-way messages and tensors have a reader. @default true */
  readonly takesMessages?: boolean | undefined;
  /** Client: whether the code of a codec is loaded when HELLO is sent. */
  readonly isLoaded?: ((codec: LaterCodec, encoding: EncodingName | null) => boolean) | undefined;
}

export const DEFAULT_ALGORITHMS: readonly Algorithm[] = Object.values(Algorithm);
export const DEFAULT_ENCODINGS: readonly EncodingName[] = ['CL100K_BASE', 'O200K_BASE'];

/** Milliseconds between two ticks of the coarse clock: a quarter of the shortest timer, from 10 to 1,000. */
export function sweepInterval(timers: Timers): number {
  return Math.max(10, Math.min(1_000, Math.min(...Object.values(timers).filter((time) => time > 0)) / 4));
}
