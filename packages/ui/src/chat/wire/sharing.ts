import {
  type CodedSelection,
  createRecorder,
  type InspectionEvent,
  loadCodecs,
} from '@parlance/client/inspect';
import { type Channel, lockOf } from '../../shared/channel.js';
import { createTurn } from '../../shared/slices.js';
import { type Happening, MAX_HAPPENINGS } from './happening.js';

/** Explains what a page has recorded, and gives it to the inspectors that ask. Loaded with the first of them. */
export interface Sharing {
  watch(inspector: string): void;
  unwatch(inspector: string): void;
  /** Something has happened. */
  wake(): void;
  /** Explains the oldest happenings and, unless an inspector watches, forgets them. */
  skip(count: number): void;
}

export interface SharingOptions {
  readonly page: string;
  readonly channel: Channel;
  /** Takes the oldest happenings. */
  readonly take: (count: number) => Happening[];
}

const BATCH = 100;

export function createSharing({ page, channel, take }: SharingOptions): Sharing {
  let selection: CodedSelection | undefined;
  const recorder = createRecorder({ selection: () => selection });
  /** Explained events; the oldest are dropped first. */
  const events: InspectionEvent[] = [];
  /** For each inspector, how many of the events it has not got. */
  const missing = new Map<string, number>();
  let isRunning = false;

  const explain = (happening: Happening): InspectionEvent[] => {
    const { at, connection } = happening;
    switch (happening.type) {
      case 'opening':
        return recorder.opening(at, connection, happening.url);
      case 'open':
        return recorder.open(at, connection);
      case 'closed':
        return recorder.closed(at, connection, happening.code, happening.reason);
      case 'frame':
        ({ selection } = happening);
        return recorder.frame(at, connection, happening.direction, happening.frame);
    }
  };
  const add = (added: readonly InspectionEvent[]) => {
    events.push(...added);
    for (const [inspector, count] of missing) missing.set(inspector, count + added.length);
    const surplus = events.length - MAX_HAPPENINGS;
    if (surplus > 0) events.splice(0, surplus);
  };
  const send = (inspector: string): boolean => {
    const count = Math.min(events.length, missing.get(inspector) ?? 0);
    if (count === 0) return false;
    const begin = events.length - count;
    const batch = events.slice(begin, begin + BATCH);
    missing.set(inspector, count - batch.length);
    channel.send({ type: 'events', page, inspector, events: batch });
    return true;
  };
  const run = async () => {
    isRunning = true;
    // The stateless ones that pages have; content in others is listed as missing.
    await loadCodecs(['CONTEXT', 'TOKEN', 'DICTIONARY']).catch(() => {});
    const turn = createTurn();
    for (let isBusy = true; isBusy && missing.size > 0; ) {
      isBusy = false;
      for (const happening of take(BATCH)) {
        add(explain(happening));
        isBusy = true;
        await turn();
      }
      for (const inspector of missing.keys()) {
        if (send(inspector)) isBusy = true;
        await turn();
      }
    }
    isRunning = false;
  };
  const wake = () => {
    if (!isRunning && missing.size > 0) void run();
  };

  return {
    wake,
    skip(count) {
      for (const happening of take(count)) {
        const explained = explain(happening);
        if (missing.size > 0) add(explained);
      }
    },
    watch(inspector) {
      missing.set(inspector, events.length);
      // The lock is free as soon as the inspector is gone, however it ended.
      void navigator.locks?.request(lockOf(inspector), () => {
        missing.delete(inspector);
      });
      wake();
    },
    unwatch(inspector) {
      missing.delete(inspector);
    },
  };
}
