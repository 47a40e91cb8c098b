/** The commands of a durable session to Redis. A test counts them, and `docs/DURABLE.md` has them as a table. */
export interface Asked {
  /** Commands of the node, without those within scripts. */
  readonly commands: number;
  /** Of them all, with their arguments as they go over the wire, about. */
  readonly bytes: number;
}

/** A step of one session while nothing else happens. */
export type Step =
  | 'a session begins'
  | 'a message to the client, of 100 bytes'
  | 'a message of the client is handled, with a state of 200 bytes and an answer of 100'
  | 'a request begins'
  | 'a part of its reply, of 20 bytes'
  | 'its reply ends'
  | 'a session ends';

export const ASKED: Readonly<Record<Step, Asked>> = {
  'a session begins': { commands: 2, bytes: 740 },
  'a message to the client, of 100 bytes': { commands: 1, bytes: 340 },
  'a message of the client is handled, with a state of 200 bytes and an answer of 100': {
    commands: 1,
    bytes: 580,
  },
  'a request begins': { commands: 1, bytes: 215 },
  'a part of its reply, of 20 bytes': { commands: 1, bytes: 245 },
  'its reply ends': { commands: 1, bytes: 215 },
  'a session ends': { commands: 2, bytes: 285 },
};
