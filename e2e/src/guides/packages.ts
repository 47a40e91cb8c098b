import { SQLITE } from '../../../scripts/pasted.js';

/** The packages that the guides install beside our packages, in exact versions, since the lockfile of this repository does not have them. */
export const PACKAGES_OF_GUIDES = [
  'ws@8.23.0',
  'jose@6.2.18',
  'express@5.3.0',
  'fastify@5.12.8',
  'hono@4.13.19',
  '@hono/node-server@2.1.9',
  'next@16.4.6',
  'react@19.3.1',
  'react-dom@19.3.1',
  'ai@6.0.326',
  '@ai-sdk/react@3.0.328',
  '@ai-sdk/openai-compatible@2.0.92',
  'vite@8.3.8',
  '@vitejs/plugin-react@6.0.1',
  'vue@3.5.45',
  '@vitejs/plugin-vue@6.0.11',
  'svelte@5.57.3',
  '@sveltejs/vite-plugin-svelte@7.3.1',
  'openai@6.49.0',
  'zod@4.6.7',
  'socket.io@4.8.4',
  'socket.io-client@4.8.4',
  'eventsource-parser@3.1.1',
  ...SQLITE,
];
