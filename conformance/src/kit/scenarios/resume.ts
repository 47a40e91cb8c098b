import type { Scenario } from '../scenario.js';

export const RESUME: readonly Scenario[] = [];
