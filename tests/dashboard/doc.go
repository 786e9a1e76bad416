// Package dashboard opens the admin address's page in a browser, headless Chromium, which is obtained like the servers, and uses it as
// an operator does: on figures that are made up, and on a running proxy.
package dashboard
