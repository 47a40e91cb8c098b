import type { decodeControlJson, encodeControlJson } from '../control/envelope-json.js';
import type { ChannelOptions } from './channel-options.js';
import type { ChannelHost, SessionChannel } from './closed-channel.js';

/** The code of a channel that most sessions do not have. */
export interface ChannelModule {
  readonly Channel: new (session: ChannelHost, options: ChannelOptions) => SessionChannel;
}

/** The code of a session without a link or with JSON envelopes. */
export interface BareModule extends ChannelModule {
  readonly decodeControlJson: typeof decodeControlJson;
  readonly encodeControlJson: typeof encodeControlJson;
}
