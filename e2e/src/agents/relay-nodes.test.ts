import { leaveOutOneConnection } from '../kit/one-connection.js';
import { useNodes } from './agents.js';

/** The tests of the relay, with every connection at the next of three nodes. */

useNodes(3);
leaveOutOneConnection('agents/relay-nodes');
await import('./relay.test.js');
await import('./relay-tensors.test.js');
await import('./relay-scan.test.js');
await import('./relay-bounds.test.js');
await import('./relay-chaos.test.js');
await import('../field/s13-relayed-requests.test.js');
