// Package advice says what caching the temporary tables of observed traffic would gain, and what it would risk: from counts to
// figures and one sentence for each shape of table.
//
// It is pure: what was counted comes from package proxy, and the figures of the proxy's own cost with it. What cannot be known
// without trying is estimated by the few factors of this package, and called an estimate.
package advice
