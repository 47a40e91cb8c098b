import type { Scenario } from '../scenario.js';

export const CONTEXT: readonly Scenario[] = [];
