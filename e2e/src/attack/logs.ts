import { Subprotocol } from '@parlance/protocol';
import type { Attack } from './attack.js';
import type { Scene } from './scene.js';
import { control, helloJson, type Peer } from './wire.js';

/** Attacks that make a server fill its log. */

const flooded =
  (write: (peer: Peer, i: number) => void, as = 'echo') =>
  async (scene: Scene): Promise<undefined> => {
    const peer = await scene.open({ as });
    await scene.flood((i) => {
      write(peer, i);
      return peer;
    });
    return undefined;
  };

export const LOGS: readonly Attack[] = [
  {
    category: 'logs',
    name: 'control messages of unknown types',
    run: flooded((peer) => peer.send(UNKNOWN)),
  },
  {
    category: 'logs',
    name: 'the same with long names',
    run: flooded((peer) => peer.send(UNKNOWN_LONG)),
  },
  {
    category: 'logs',
    name: 'the same in JSON',
    async run(scene) {
      const peer = scene.connect(0, Subprotocol.JSON);
      await peer.opened();
      peer.send(helloJson({}, scene.token('echo')));
      await scene.flood(() => {
        peer.send(UNKNOWN_JSON);
        return peer;
      });
      return undefined;
    },
  },
  {
    category: 'logs',
    name: 'requests whose handler throws',
    run: flooded((peer) => void peer.request('x'), 'throw'),
  },
  {
    category: 'logs',
    name: 'sessions that begin with nonsense',
    sessions: 16,
    async run(scene) {
      await Promise.all(
        Array.from({ length: 8 }, async () => {
          while (!scene.isOver) {
            const peer = scene.connect();
            if (await peer.opened()) peer.send('nonsense');
            await Promise.race([peer.closed, new Promise((resolve) => setTimeout(resolve, 200))]);
            peer.cut();
          }
        }),
      );
      return undefined;
    },
  },
];

const UNKNOWN = control('GREETING');
const UNKNOWN_LONG = control(`GREETING${'X'.repeat(10_000)}`);
const UNKNOWN_JSON = '{"type":"GREETING","session_id":null,"timestamp":1,"payload":{}}';
