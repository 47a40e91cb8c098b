import { ProtocolError } from '../../base/errors.js';
import { bad, type Fields, get } from '../../base/fields.js';
import { listsOf, orNull, trimmed, ValueList } from '../../base/value-list.js';
import { BodyCodec, type DeferredEncoding } from '../body.js';
import { Base } from './base.js';
import type { ContextDecoder } from './decoder.js';
import type { ContextEncoder, OfferUnderWay } from './encoder.js';
import type { ContextParameters } from './parameters.js';
import { type ContextState, MAX_SLOT_SIZE, NEWEST, NO_BASE, SLOT, type StreamState } from './state.js';

/** Context coding of one direction as plain values, for a session that moves to another process. */

/** The state of the sending end. */
export function encoderFields(encoder: ContextEncoder): Fields {
  const offers = [...encoder.snapshot()].map(([streamId, { content, isPart, replaces, isVersion }]) => [
    streamId,
    content,
    isPart,
    replaces,
    isVersion,
  ]);
  return { ...stateFields(encoder.state), offers };
}

/** The state of the receiving end. */
export function decoderFields(decoder: ContextDecoder): Fields {
  return stateFields(decoder.state);
}

/**
 * @param encoder one without messages.
 * @throws {ProtocolError} `bad_message`, `message_too_large` if the fields hold more than the parameters allow.
 */
export function restoreEncoder(encoder: ContextEncoder, fields: Fields, parameters: ContextParameters): void {
  restoreState(encoder.state, fields, parameters);
  const { underWay } = encoder.state.snapshot();
  encoder.restore(
    listsOf(get(fields, 'offers'), 'offers', (list): readonly [number, OfferUnderWay] => {
      const streamId = list.count();
      if (underWay?.has(streamId) !== true) throw list.bad('offers of bodies that are under way');
      const offer: OfferUnderWay = {
        content: list.bytes(),
        isPart: list.flag(),
        replaces: list.flag(),
        isVersion: list.flag(),
        // The length that it shares with its base is not known here. Without it, the content only takes more memory.
        prefix: 0,
        checkpoints: undefined,
      };
      return [streamId, offer];
    }),
  );
}

/** As {@link restoreEncoder}. */
export function restoreDecoder(decoder: ContextDecoder, fields: Fields, parameters: ContextParameters): void {
  restoreState(decoder.state, fields, parameters);
}

/**
 * Coding for a body whose coder is in another process: always in context, as no other codec is there to compare with.
 *
 * @param content the body, uncoded; must not be changed any more.
 */
export function codedInContext(content: Uint8Array): DeferredEncoding {
  return {
    encode(encoder, streamId, _kind, isPart) {
      const offer = encoder.code(content, encoder.match(content, streamId, isPart), isPart);
      return { codec: BodyCodec.CONTEXT, bytes: offer.bytes, originalLength: content.length, offer };
    },
  };
}

function stateFields(state: ContextState): Fields {
  const { streams, underWay } = state.snapshot();
  return {
    bases: state.bases.map(({ content }) => content),
    streams: [...(streams ?? [])].map(([id, { slot, checksum }]) =>
      trimmed([id, checksum, orNull(slot?.content)]),
    ),
    under_way: [...(underWay ?? [])].map(([id, base]) => [id, positionOf(state, id, base)]),
  };
}

/** How a body names its base. A base under way is in the list, as it is pinned, or in the slot of its stream. */
function positionOf(state: ContextState, streamId: number, base: Base | undefined): number {
  if (base === undefined) return NO_BASE;
  return base === state.slot(streamId) ? SLOT : NEWEST + state.bases.indexOf(base);
}

function restoreState(state: ContextState, fields: Fields, parameters: ContextParameters): void {
  const bases = new ValueList(get(fields, 'bases'), 'bases').rest((list) => list.bytes());
  const size = bases.reduce((sum, { length }) => sum + length, 0);
  if (size > parameters.maxBytes || bases.length > parameters.maxMessages) {
    throw new ProtocolError(
      'message_too_large',
      `${bases.length} messages of ${size} bytes exceed the context`,
    );
  }
  const streams = listsOf(get(fields, 'streams'), 'streams in context', (list): [number, StreamState] => [
    list.count(),
    { checksum: list.count(0xffffffff), slot: slotOf(list.optional((one) => one.bytes(MAX_SLOT_SIZE))) },
  ]);
  state.restore(
    bases.map((content) => new Base(content)),
    new Map(streams),
  );
  for (const [streamId, position] of listsOf(get(fields, 'under_way'), 'bodies in context', pairOf)) {
    const base = state.baseAt(position, streamId);
    if ((position !== NO_BASE && base === undefined) || state.snapshot().underWay?.has(streamId))
      throw bad('bodies in context', 'one for each stream, against bases that exist');
    state.begin(streamId, base);
  }
}

const slotOf = (content: Uint8Array | undefined): Base | undefined => content && new Base(content);
const pairOf = (list: ValueList): readonly [number, number] => [list.count(), list.count()];
