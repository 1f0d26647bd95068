"""What the pages of other rooms say: from their results to findings and blocks, which `report` renders."""
