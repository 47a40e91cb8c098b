import { connect } from '@parlance/client';
import WebSocket from 'ws';
import type { TransferSystem } from '../avp/ends.js';
import { CLIENT_OPTIONS, endOf, readAll } from '../avp/session-end.js';
import { receiverName, senderName } from './relays.js';

/** Tensors from agent to agent. */
export const system: TransferSystem = {
  serve: () => Promise.reject(new Error('agents connect to a relay')),

  async connect(port, role) {
    const [own, other] =
      role === 'sender' ? [senderName(0), receiverName(0)] : [receiverName(0), senderName(0)];
    const session = await connect(`ws://127.0.0.1:${port}/session`, {
      ...CLIENT_OPTIONS,
      WebSocket,
      token: own,
    });
    void readAll(session);
    return endOf(session, other);
  },
};
