import { connect } from '@parlance/client';
import { version } from 'react';
import { createRoot, hydrateRoot } from 'react-dom/client';
import { page } from './react-app.js';

/** Mounts the app in the document, or hydrates what a server has rendered. */

declare global {
  interface Window {
    react: {
      readonly version: string;
      /** What hydration found wrong. */
      readonly errors: readonly string[];
      unmount(): void;
    };
    /** What the server has rendered; the test sets it before the page loads. */
    rendered?: string;
  }
}

const query = new URLSearchParams(location.search);
const url = query.get('server') ?? '';
const connectAs = () => connect(url, { token: 'anna' });
const source =
  query.get('source') === 'session'
    ? await connectAs()
    : query.get('source') === 'function'
      ? connectAs
      : undefined;
const app = page({ url, token: query.get('token') ?? 'anna', source });
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
window.react = { version, errors, unmount: () => root.unmount() };
