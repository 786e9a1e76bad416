package bench

import "io"

// WriteHTML stub
func (r *Report) WriteHTML(w io.Writer) error { return nil }
