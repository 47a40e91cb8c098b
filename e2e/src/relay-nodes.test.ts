import { useNodes } from './agents.js';

/** The tests of the relay, with the agents on two nodes of a cluster in turn. */

useNodes(2);
await import('./relay.test.js');
await import('./relay-tensors.test.js');
await import('./relay-scan.test.js');
await import('./relay-bounds.test.js');
