// Package browser opens the page of poolwright ui in Chromium, of a sandbox after its demo: as make browser, it checks what a browser
// reports, and as make screenshots it makes the pictures of the documentation. Start reading at TestThePageInABrowser.
package browser
