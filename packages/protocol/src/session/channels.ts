import { Extension } from '../base/constants.js';
import type { Negotiated } from '../control/agreement.js';
import type { Channel } from './body-channel.js';
import type { ChannelModule } from './channel-module.js';
import { DurableChannel } from './durable/channel.js';
import type { DurableSession } from './durable-session.js';
import { MovableChannel } from './movable-channel.js';
import { RebuildableChannel } from './rebuildable-channel.js';

/** Server: the channel of a session with a link, by what was agreed on. */
export function channelOf({ extensions }: Negotiated): ChannelModule['Channel'] {
  if (extensions[Extension.DURABLE] !== undefined) return DurableChannel;
  return extensions[Extension.REBUILD] === undefined ? MovableChannel : RebuildableChannel;
}

/** The record of the session with this channel; `undefined` if it is not recorded. */
export function recordOf(channel: Channel): DurableSession | undefined {
  return channel instanceof DurableChannel ? channel : undefined;
}
