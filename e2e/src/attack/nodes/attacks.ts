import type { Attack } from '../attack.js';
import { blanks } from '../bombs.js';
import { damaged, neverComing, outOfOrder } from './moves.js';
import {
  brokenMessages,
  comeAndGo,
  expanding,
  forgedSenders,
  longNames,
  manySenders,
  unreadAnswers,
  unreadMessages,
} from './relay.js';
import { foreigners, manyConnections, tickets } from './tickets.js';

/**
 * Attacks on what nodes offer to each other, by strangers, and by a node that has the secret. Such a node can act for any
 * principal. It must not be able to take down the others, or more than a principal may take.
 */

const rogue = { category: 'nodes', server: 'cluster' } as const;
/** The charges of all other nodes together count as those of one principal. */
const quarter = { sessions: 1_000 } as const;
/** The same, beside what many connections let them hold. */
const half = { ...quarter, principals: 2 } as const;

export const NODES: readonly Attack[] = [
  { ...rogue, name: 'tickets: of others, replayed', seconds: 3, run: tickets },
  { ...rogue, name: 'principals of sessions elsewhere', seconds: 3, run: foreigners },
  { ...rogue, isLong: true, name: 'relay: senders with long names', ...quarter, seconds: 5, run: longNames },
  { ...rogue, isLong: true, name: 'relay: as many senders as can be', ...quarter, run: manySenders },
  { ...rogue, name: 'relay: answers that are never read', run: unreadAnswers },
  { ...rogue, isLong: true, name: 'relay: senders that come and go', ...quarter, run: comeAndGo },
  { ...rogue, name: 'relay: senders of others', seconds: 5, run: forgedSenders },
  {
    ...rogue,
    isLong: true,
    name: 'relay: messages that expand',
    ...quarter,
    seconds: 5,
    prepare: blanks,
    run: expanding('message'),
  },
  {
    ...rogue,
    isLong: true,
    name: 'relay: requests that expand',
    ...quarter,
    seconds: 5,
    prepare: blanks,
    run: expanding('request'),
  },
  { ...rogue, isLong: true, name: 'relay: for one that does not read', ...half, run: unreadMessages },
  { ...rogue, name: 'move: sessions that never come', ...quarter, run: neverComing },
  { ...rogue, isLong: true, name: 'move: damaged sessions', seconds: 5, run: damaged },
  { ...rogue, name: 'move: what is out of order', seconds: 3, run: outOfOrder },
  { ...rogue, isLong: true, name: 'all: connections that break', seconds: 5, run: brokenMessages },
  {
    ...rogue,
    isLong: true,
    name: 'link: 10,000 connections',
    ...quarter,
    run: manyConnections('link', 1_024),
  },
  {
    ...rogue,
    isLong: true,
    name: 'led: 10,000 connections',
    ...quarter,
    run: manyConnections('peer', 4_096),
  },
];
