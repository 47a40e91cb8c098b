import { decodeUtf8 } from '../base/text.js';
import type { ContextState } from '../codec/context/state.js';
import { LinkChannel } from '../session/channel.js';
import type { End } from './simulation.js';

/** The messages that an end keeps in either direction, and what is under way, as they are. */
export function contextOf({ core: { channel } }: End): {
  readonly sent: unknown;
  readonly received: unknown;
} {
  if (!(channel instanceof LinkChannel)) throw new Error('the session has no link');
  const link: unknown = Reflect.get(channel, 'link');
  const parts = Reflect.get(link as object, 'parts') as { readonly context?: Coders };
  const { encoder, decoder } = parts.context ?? {};
  return { sent: keptBy(encoder?.state), received: keptBy(decoder?.state) };
}

interface Coders {
  readonly encoder?: { readonly state: ContextState };
  readonly decoder?: { readonly state: ContextState };
}

const keptBy = (state: ContextState | undefined) =>
  state && {
    bases: state.bases.map(({ content, pins }) => [decodeUtf8(content), pins]),
    streams: state.streams,
  };
