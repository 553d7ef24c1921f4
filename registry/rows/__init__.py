"""Files of rows, as spreadsheets save them -> what each row says of resources; pure functions."""
