import { connect } from '@parlance/client';
import { version } from 'react';
import { createRoot, hydrateRoot } from 'react-dom/client';
import { page } from './react-app.js';

/** Mounts the app in the document, or hydrates what a server has rendered. */

declare global {
  interface Window {
    react: {
      readonly version: string;
      /** The errors of hydration. */
      readonly errors: readonly string[];
      /** How often the page has connected by itself. */
      readonly connects: number;
      unmount(): void;
    };
    /** The HTML that the server has rendered; the test sets it before the page loads. */
    rendered?: string;
  }
}

const query = new URLSearchParams(location.search);
const url = query.get('server') ?? '';
let connects = 0;
const connectAs = () => {
  connects++;
  return connect(url, { token: 'anna' });
};
const source =
  query.get('source') === 'session'
    ? await connectAs()
    : query.get('source') === 'function'
      ? connectAs
      : undefined;
const room = query.get('room') ?? undefined;
const app = page({ url, token: query.get('token') ?? 'anna', room, source });
const errors: string[] = [];
const element = document.createElement('main');
document.body.append(element);
const { rendered } = window;
if (rendered !== undefined) element.innerHTML = rendered;
const root =
  rendered === undefined
    ? createRoot(element)
    : hydrateRoot(element, app, { onRecoverableError: (error) => errors.push(String(error)) });
if (rendered === undefined) root.render(app);
window.react = {
  version,
  errors,
  get connects() {
    return connects;
  },
  unmount: () => root.unmount(),
};
