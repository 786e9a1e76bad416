// Package trial compares ways to treat temporary tables on live sessions: it assigns sessions to arms, takes the measured cycles of
// their tables, says with which confidence the arms differ, stops an arm that does harm, and keeps the results in a file.
//
// It neither listens nor serves: the proxy asks it about sessions, and whoever has an HTTP server asks it for a Report.
package trial
