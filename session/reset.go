package session

import "tmpproxy/rewrite"

// With Policy.Deletes a table is emptied by DELETE where that is cheaper. InnoDB never purges the rows that were deleted from a
// temporary table, so that each DELETE of many costs more than the one before (observed on MySQL 9.7 and MariaDB 10.11): a TRUNCATE comes
// at least every maxDeletes times, and as soon as a DELETE has cost more than a TRUNCATE.

const maxDeletes = 100

// deletable says whether DELETE does what a reset has to do to a table: the next AUTO_INCREMENT value stays, other engines give rows back
// in another order, sql_safe_updates forbids it, and with autocommit off it opens a transaction.
func (m *Machine) deletable(t *table, p *Policy) bool {
	return p.Deletes && t.innoDB && !t.counted && !t.exposed && t.deletes < maxDeletes &&
		m.status&(statusAutocommit|statusInTrans) == statusAutocommit && !m.ctx.has("sql_safe_updates") && m.ledger.Deletes(t.shape)
}

// reset takes over that a table was emptied in the background, by DELETE or TRUNCATE.
func (m *Machine) reset(t *table, deleted bool, took int64) {
	if deleted {
		t.deletes++
	} else {
		t.deletes = 0
	}
	t.clear()
	if t.innoDB && !t.counted {
		m.note(Note{Kind: NoteReset, Shape: t.shape, Name: t.key, Deleted: deleted, Took: took})
	}
}

// has says whether a variable was SET in the session.
func (c context) has(key string) bool {
	for _, s := range c.settings.all() {
		if s.key == key {
			return true
		}
	}
	return false
}

// isInnoDB says whether the variant of a CREATE that is sent makes an InnoDB table for sure.
func isInnoDB(c *rewrite.Create, converted bool) bool {
	return converted || c.Engine == rewrite.EngineInnoDB
}
