// Pages that are read from a folder may not start workers, and the search is one: it runs in a
// hidden frame there. Its name is the one under which the theme looks for such a stand-in.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inner = (this.inner = frame.contentWindow);
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const load = (source) =>
        new Promise((done, fail) => {
          const script = inner.document.createElement("script");
          Object.assign(script, { src: source, onload: done, onerror: fail });
          inner.document.body.appendChild(script);
        });
      inner.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      this.ready = load(url);
    }
    postMessage(data) {
      const message = () => new this.inner.MessageEvent("message", { data });
      this.ready.then(() => this.inner.dispatchEvent(message()));
    }
    terminate() {
      this.inner.frameElement.remove();
    }
  };
}
